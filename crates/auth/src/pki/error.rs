//! What can go wrong with the cluster's keys and certificates.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum PkiError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The remedy is a full sentence for the person at the terminal.
    #[error("{} is damaged: {problem}. {remedy}", path.display())]
    Damaged { path: PathBuf, problem: String, remedy: &'static str },
    #[error(
        "{} is missing, but the files beside it were issued by it. Restore it from a backup, or delete {} \
         to start with a new authority (every node and kubeconfig then needs new credentials)",
        path.display(), directory.display()
    )]
    AuthorityMissing { path: PathBuf, directory: PathBuf },
    #[error(
        "{} is the authority of another cluster than the one in the store. Use another data dir, or move {} away",
        path.display(), directory.display()
    )]
    OtherCluster { path: PathBuf, directory: PathBuf },
    #[error("the cluster's keys in the store cannot be read: {0}")]
    Shared(String),
    #[error("{0:?} cannot stand in a certificate as a host name")]
    HostName(String),
    #[error("cannot issue a certificate for {subject}")]
    Issue { subject: String, source: rcgen::Error },
    #[error("the cluster's certificates do not make a TLS configuration")]
    Tls(#[from] rustls::Error),
    #[error("the cluster's authority cannot verify client certificates")]
    ClientVerifier(#[from] rustls::server::VerifierBuilderError),
}
