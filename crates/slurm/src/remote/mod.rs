//! The ways to a cluster. To a login node the system's `ssh`, because it is the one implementation that everybody's cluster
//! is tried with, and is kept safe by the distribution: one connection per process, which all commands share. Or
//! slurmrestd, which needs no login but carries no files. Everything has a time limit; nothing secret is ever an argument.

#[cfg(test)]
mod bulk_tests;
mod failure;
mod place;
mod rest;
mod scripts;
mod ssh;

pub use failure::Failure;
pub use place::Place;
pub use rest::Rest;
pub use scripts::*;
pub use ssh::{Credentials, Ssh};

use std::time::Duration;

use crate::kinds::{GpuJob, SlurmCluster};
use crate::program::Package;
use crate::seen::Seen;

/// Slurm's own programs get 20 s each there.
const LOOK_LIMIT: Duration = Duration::from_secs(75);
const UPLOAD_LIMIT: Duration = Duration::from_secs(1800);
const BUILD_SECONDS: u32 = 1800;
const SUBMIT_LIMIT: Duration = Duration::from_secs(140);

/// One of the ways. What it does for a job can be cut off at any moment and done again.
pub enum Remote {
    Ssh(Ssh),
    Rest(Rest),
}

impl Remote {
    /// All that there is to know of the job there.
    pub async fn look(&self, place: &Place) -> Result<Seen, Failure> {
        match self {
            Remote::Ssh(ssh) => {
                let arguments = [&place.directory, &place.name, &place.attempt, &place.since];
                let text = ssh.run(LOOK, &arguments.map(String::as_str), LOOK_LIMIT).await?;
                Ok(Seen::read(&String::from_utf8_lossy(&text)))
            }
            Remote::Rest(rest) => rest.look(place).await,
        }
    }

    pub async fn upload(&self, place: &Place, package: &Package) -> Result<(), Failure> {
        // Its files go with the job itself.
        let Remote::Ssh(ssh) = self else { return Ok(()) };
        let arguments = [place.directory.as_str(), &package.digest];
        match ssh.run_with(UPLOAD, &arguments, package.reader()?, UPLOAD_LIMIT).await {
            // Cut off, or the disk there is full: the words say which, and the next round tries again.
            Err(Failure::Ended { said, .. }) => {
                Err(Failure::Unreachable(format!("the files did not arrive whole: {said}")))
            }
            other => other.map(drop),
        }
    }

    pub async fn build(&self, place: &Place) -> Result<(), Failure> {
        let Remote::Ssh(ssh) = self else { return Ok(()) };
        let limit = Duration::from_secs(u64::from(BUILD_SECONDS) + 30);
        ssh.run(BUILD, &[&place.directory, &BUILD_SECONDS.to_string()], limit).await.map(drop)
    }

    /// Gives the job to Slurm unless Slurm has it.
    pub async fn submit(
        &self,
        place: &Place,
        job: &GpuJob,
        cluster: &SlurmCluster,
        package: Option<&Package>,
    ) -> Result<(), Failure> {
        match (self, package) {
            (Remote::Ssh(ssh), _) => {
                let arguments = [&place.directory, &place.name, &place.attempt, &place.comment, &place.since];
                ssh.run(SUBMIT, &arguments.map(String::as_str), SUBMIT_LIMIT).await.map(drop)
            }
            (Remote::Rest(rest), Some(package)) => rest.submit(place, job, cluster, package).await,
            (Remote::Rest(_), None) => Ok(()),
        }
    }

    /// Ends every task of the job.
    pub async fn cancel(&self, place: &Place) -> Result<(), Failure> {
        match self {
            Remote::Ssh(ssh) => ssh.run(CANCEL, &[&place.name], LOOK_LIMIT).await.map(drop),
            Remote::Rest(rest) => rest.cancel(place).await,
        }
    }

    /// Leaves nothing there: neither a job that an end seen too early or a requeued task has left, nor files.
    pub async fn clean(&self, place: &Place) -> Result<(), Failure> {
        match (self.cancel(place).await, self) {
            // Where there is no scancel there is no job.
            (Ok(()) | Err(Failure::Ended { code: 127, .. }), Remote::Ssh(ssh)) => {
                ssh.run(CLEAN, &[&place.directory], LOOK_LIMIT).await.map(drop)
            }
            (cancelled, _) => cancelled,
        }
    }

    /// The way to its files, where there is one.
    pub fn files(&self) -> Option<&Ssh> {
        match self {
            Remote::Ssh(ssh) => Some(ssh),
            Remote::Rest(_) => None,
        }
    }
}
