//! Why something did not happen on a cluster.

use std::time::Duration;

use thiserror::Error;

/// Why a command there did not do what it should.
#[derive(Debug, Error)]
pub enum Failure {
    /// Nobody knows whether it ran.
    #[error("{0}")]
    Unreachable(String),
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("ended with code {code}: {said}")]
    Ended { code: i32, said: String },
    /// Slurm will not have the job, in its own words.
    #[error("{0}")]
    Refused(String),
    #[error("cannot run ssh on this machine: {0}")]
    Here(#[from] std::io::Error),
}

impl Failure {
    /// Another try may go well.
    pub fn is_passing(&self) -> bool {
        match self {
            Failure::Unreachable(_) | Failure::TimedOut(_) => true,
            Failure::Ended { code, .. } => matches!(code, 75 | 76),
            Failure::Refused(_) | Failure::Here(_) => false,
        }
    }
}
