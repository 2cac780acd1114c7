//! The whole store as one stream, while the server runs: `GET /minik8s/backup`.
//!
//! It holds every Secret and the cluster's own keys, so RBAC cannot open it: only the group `system:masters`,
//! whose members can have all of that anyway, gets an answer.

use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt;
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use jiff::Timestamp;
use minik8s_auth::User;
use minik8s_auth::user::MASTERS;

use crate::answer::{self, Body};
use crate::api::Api;
use crate::error::{ApiError, Result};

pub const PATH: &str = "/minik8s/backup";

pub fn answer(api: &Api, user: &User) -> Result<Response<Body>> {
    if !user.in_group(MASTERS) {
        let why = format!("only members of {MASTERS} may read the whole store");
        return Err(ApiError::forbidden(None, "", why));
    }
    let store = api.registry.store.clone();
    // What lies there encrypted stays so in the file.
    let store = store.at_rest().unwrap_or(store);
    let parts = minik8s_store::backup::stream(store, note(Timestamp::now()));
    // A file without its end is found out by whoever reads it.
    let parts = parts.scan((), |(), part| {
        let part = part.inspect_err(|error| tracing::warn!(%error, "a backup broke off")).ok();
        std::future::ready(part)
    });
    let frames = parts.map(|part: Bytes| Ok::<_, Infallible>(Frame::data(part)));
    Ok(answer::stream(200, "application/octet-stream", StreamBody::new(frames)))
}

/// Who wrote a backup, and when.
pub fn note(now: Timestamp) -> String {
    let now = now.round(jiff::Unit::Second).unwrap_or(now);
    format!("minik8s {}, {now}", env!("CARGO_PKG_VERSION"))
}
