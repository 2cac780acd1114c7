//! Why a machine did not become a node, in words for the person who tries.

use std::path::PathBuf;

use minik8s_auth::pki::PkiError;
use minik8s_datadir::RemovalError;
use minik8s_meta::error_chain;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum JoinError {
    #[error("this machine is in no cluster yet: give it --server https://HOST:6443 and --token @FILE")]
    NothingKnown,
    #[error(
        "this data dir belongs to node {known}, not {asked}; use another --data-dir, or leave first (minik8s agent --leave)"
    )]
    OtherName { known: String, asked: String },
    #[error("no server answers: {0}")]
    Unreachable(String),
    #[error(
        "the server at {server} is not of the cluster that the token was made for: its authority has another \
         key. Check the address; if it is right, somebody is in between"
    )]
    WrongAuthority { server: String },
    #[error(
        "the server does not accept the token: it is wrong, expired or revoked. Make a new one on the server: \
         minik8s token create"
    )]
    TokenRefused,
    #[error("the cluster refuses this node: {0}")]
    Denied(String),
    #[error("nobody has decided on the certificate request {0}: look at it with kubectl get csr")]
    Undecided(String),
    #[error("the server issued a certificate that cannot be used: {0}")]
    Unusable(String),
    #[error("{path} is damaged: {problem}. Delete it and join again with a token")]
    Damaged { path: PathBuf, problem: String },
    #[error("cannot make a key")]
    Key(#[source] rcgen::Error),
    #[error("credentials cannot be kept")]
    Files(#[from] PkiError),
    #[error("credentials cannot be forgotten")]
    Forget(#[from] RemovalError),
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    #[error("the server refuses the request")]
    Api(#[source] kube::Error),
}

impl From<kube::Error> for JoinError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 401 => JoinError::TokenRefused,
            kube::Error::Service(source) => JoinError::Unreachable(error_chain(&*source)),
            other => JoinError::Api(other),
        }
    }
}
