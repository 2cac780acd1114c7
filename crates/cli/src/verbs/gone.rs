//! Waiting for an object to go away, or to become as wanted, by watching it.

use std::time::Duration;

use serde_json::Value;

use crate::client::Call;
use crate::error::{Error, Result};
use crate::print;
use crate::select::{self, Target};
use crate::session::Session;
use crate::watch;

/// Returns when the object with this UID (any, if none) is gone. Zero means any time.
pub async fn wait(session: &Session, target: &Target, uid: Option<&str>, timeout: Duration) -> Result<()> {
    let work = until_gone(session, target, uid);
    if timeout.is_zero() {
        return work.await;
    }
    match tokio::time::timeout(timeout, work).await {
        Ok(ended) => ended,
        Err(_) => Err(timed_out(target)),
    }
}

pub fn timed_out(target: &Target) -> Error {
    Error::plain(format!("timed out waiting for the condition on {}/{}", target.kind.plural, target.name))
}

/// The request that lists, or watches, this object alone.
pub fn alone(target: &Target) -> Call {
    let path = target.kind.path(target.namespace.as_deref(), None);
    Call::get(path).query("fieldSelector", format!("metadata.name={}", target.name))
}

async fn until_gone(session: &Session, target: &Target, uid: Option<&str>) -> Result<()> {
    let client = session.client().await?;
    let is_it = |object: &Value| uid.is_none_or(|uid| object["metadata"]["uid"] == uid);
    loop {
        let list = match client.send(alone(target)).await {
            // The kind itself may go with its definition.
            Err(error) if error.is_not_found() => return Ok(()),
            list => list?,
        };
        if !print::members(&list).iter().any(is_it) {
            return Ok(());
        }
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let mut watch = match watch::open(client, alone(target).query("resourceVersion", version)).await {
            Err(error) if error.is_not_found() => return Ok(()),
            watch => watch?,
        };
        // An error here (the version is too old) means: look again.
        while let Ok(Some(event)) = watch.next().await {
            if event.kind == "DELETED" && is_it(&event.object) {
                return Ok(());
            }
        }
    }
}

/// The object once it is as wanted.
pub async fn until(session: &Session, target: &Target, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    let client = session.client().await?;
    loop {
        let list = client.send(alone(target)).await?;
        if let Some(object) = print::members(&list).iter().find(|object| wanted(object)) {
            return Ok(select::with_kind(object.clone(), &target.kind));
        }
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let mut watch = watch::open(client, alone(target).query("resourceVersion", version)).await?;
        while let Ok(Some(event)) = watch.next().await {
            if event.kind != "DELETED" && event.kind != "BOOKMARK" && wanted(&event.object) {
                return Ok(event.object);
            }
        }
    }
}
