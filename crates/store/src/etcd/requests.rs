//! One request to etcd: bounded in time, its errors in our words.

use std::error::Error as _;
use std::time::Duration;

use etcd_client::ResponseHeader;
use minik8s_meta::{error_chain, with_causes};

use super::keys::Keys;
use crate::{Error, Result, Revision};

/// Longer than an election takes; a cluster that needs more is not there.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn request<T>(
    what: &str,
    request: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(translate(what, &error)),
        Err(_) => Err(Error::Engine(format!("etcd did not answer within {} s ({what})", TIMEOUT.as_secs()))),
    }
}

/// Revisions in the errors are filled in by those who know them.
fn translate(what: &str, error: &etcd_client::Error) -> Error {
    if let etcd_client::Error::GRpcStatus(status) = error {
        if status.message().contains("required revision has been compacted") {
            return Error::Compacted { requested: 0, oldest: 0 };
        }
        if status.message().contains("required revision is a future revision") {
            return Error::FutureRevision { requested: 0, newest: 0 };
        }
    }
    Error::Engine(format!("etcd ({what}): {}", causes(error)))
}

/// The error and, where the connection itself is the trouble, what was behind it: nobody else tells that.
pub(super) fn causes(error: &etcd_client::Error) -> String {
    match error {
        etcd_client::Error::GRpcStatus(status) => with_causes(status.message().to_owned(), status.source()),
        etcd_client::Error::TransportError(error) => error_chain(error),
        other => other.to_string(),
    }
}

pub(super) fn header_revision(keys: &Keys, header: Option<&ResponseHeader>) -> Result<Revision> {
    let missing = || Error::Engine("etcd answered without a revision".into());
    header.map(|header| keys.ours(header.revision())).ok_or_else(missing)
}
