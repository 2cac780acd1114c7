//! Tells the API server a pod's status, and in the end that the pod is gone.
//!
//! One write at a time, always of the newest status; what was overtaken is never sent. That a start goes on as it
//! should can wait a moment, and is mostly overtaken. A server that is away is tried again until it is back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use minik8s_informer::{Backoff, Lenient};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::debug;

const RETRY: Backoff = Backoff::millis(400, 10_000);
/// How long something without news is held back.
const HELD: Duration = Duration::from_millis(500);

pub struct Report {
    pub pod: Arc<core::Pod>,
    pub status: core::PodStatus,
}

pub struct Reporter {
    client: kube::Client,
    wanted: Option<(Arc<core::Pod>, String)>,
    /// What the server is known to have. As text, which takes a fraction of the memory.
    reported: Option<String>,
    delete: Option<Arc<core::Pod>>,
    deleted: bool,
    writing: Option<JoinHandle<Outcome>>,
    /// Before the next write.
    pause: Duration,
    /// What is wanted is not written before.
    held_until: Option<Instant>,
}

enum Outcome {
    Reported(String),
    Deleted,
    /// The object is not there any more.
    Vanished,
    Failed,
}

impl Reporter {
    pub fn new(client: kube::Client) -> Self {
        Reporter {
            client,
            wanted: None,
            reported: None,
            delete: None,
            deleted: false,
            writing: None,
            pause: Duration::ZERO,
            held_until: None,
        }
    }

    pub fn want(&mut self, report: Report) {
        let status = serde_json::to_string(&report.status).unwrap_or_default();
        if self.reported.is_none() {
            // After a restart of the agent most pods have the status that they should have.
            let has = report.pod.status.as_ref().and_then(|status| serde_json::to_string(status).ok());
            self.reported = has;
        }
        let held_until = self.held_until.unwrap_or_else(|| Instant::now() + HELD);
        self.held_until = is_plain_start(&report.status).then_some(held_until);
        if self.reported.as_ref() == Some(&status) {
            self.wanted = None;
        } else {
            self.wanted = Some((report.pod, status));
        }
        self.write();
    }

    /// Deletes the API object once the last status is written.
    pub fn delete(&mut self, pod: Arc<core::Pod>) {
        self.delete = Some(pod);
        self.held_until = None;
        self.write();
    }

    pub fn deleted(&self) -> bool {
        self.deleted
    }

    /// Waits for the write under way, or for the next; for ever if there is none.
    pub async fn progress(&mut self) {
        let Some(writing) = &mut self.writing else {
            match self.held_until.filter(|_| self.wanted.is_some()) {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
            return self.write();
        };
        let outcome = writing.await;
        self.writing = None;
        self.pause = match &outcome {
            Ok(Outcome::Failed) | Err(_) => RETRY.following(self.pause),
            _ => Duration::ZERO,
        };
        match outcome {
            Ok(Outcome::Reported(status)) => self.reported = Some(status),
            Ok(Outcome::Deleted) => self.deleted = true,
            Ok(Outcome::Vanished) => {
                self.wanted = None;
                self.deleted |= self.delete.is_some();
            }
            Ok(Outcome::Failed) | Err(_) => {}
        }
        if self.wanted.as_ref().is_some_and(|(_, status)| Some(status) == self.reported.as_ref()) {
            self.wanted = None;
        }
        self.write();
    }

    fn write(&mut self) {
        let held = self.held_until.is_some_and(|at| Instant::now() < at);
        if self.writing.is_some() || self.deleted || held {
            return;
        }
        self.held_until = None;
        let (client, pause) = (self.client.clone(), self.pause);
        self.writing = match (&self.wanted, &self.delete) {
            (Some((pod, status)), _) => {
                let (pod, status, reported) = (pod.clone(), status.clone(), self.reported.clone());
                Some(tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    patch_status(client, &pod, status, reported.as_deref()).await
                }))
            }
            (None, Some(pod)) => {
                let pod = pod.clone();
                Some(tokio::spawn(async move {
                    tokio::time::sleep(pause).await;
                    delete_object(client, &pod).await
                }))
            }
            (None, None) => None,
        };
    }
}

/// Nothing has gone wrong, and nothing runs yet: whoever waits for the pod learns nothing from it.
fn is_plain_start(status: &core::PodStatus) -> bool {
    let lists =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let plain = |container: &core::ContainerStatus| {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        let reason = waiting.and_then(|waiting| waiting.reason.as_deref());
        matches!(reason, Some("ContainerCreating" | "PodInitializing")) && container.restart_count == 0
    };
    status.phase.as_deref() == Some("Pending")
        && status.reason.is_none()
        && lists.into_iter().flatten().flatten().all(plain)
}

fn api(client: kube::Client, pod: &core::Pod) -> (Api<Lenient<core::Pod>>, String) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    (Api::namespaced(client, namespace), pod.metadata.name.clone().unwrap_or_default())
}

async fn patch_status(
    client: kube::Client,
    pod: &core::Pod,
    status: String,
    reported: Option<&str>,
) -> Outcome {
    let (api, name) = api(client, pod);
    // The UID keeps a late report of a deleted pod away from its successor of the same name.
    let mut wanted: Value = serde_json::from_str(&status).unwrap_or_default();
    // What we told last may be newer than the object that the watch showed.
    let told: core::PodStatus = reported.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let seen = pod.status.iter().chain([&told]).flat_map(|status| status.conditions.iter().flatten());
    name_what_goes(&mut wanted, seen);
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": wanted});
    match api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(_) => Outcome::Reported(status),
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Outcome::Vanished,
        Err(error) => {
            debug!(%error, pod = name, "cannot report a status");
            Outcome::Failed
        }
    }
}

/// A patch leaves alone what it does not mention: what should go must be named.
fn name_what_goes<'a>(wanted: &mut Value, seen: impl Iterator<Item = &'a core::PodCondition>) {
    let Some(wanted) = wanted.as_object_mut() else { return };
    for key in ["reason", "message"] {
        wanted.entry(key).or_insert(Value::Null);
    }
    // Lists that a patch would merge: addresses of an earlier sandbox must not stay.
    for key in ["podIPs", "hostIPs"] {
        if let Some(list) = wanted.get_mut(key).and_then(Value::as_array_mut) {
            list.insert(0, json!({"$patch": "replace"}));
        }
    }
    let Some(conditions) = wanted.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    let kept: Vec<String> = conditions.iter().filter_map(|c| c["type"].as_str().map(str::to_owned)).collect();
    for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
        for key in ["reason", "message"] {
            condition.entry(key).or_insert(Value::Null);
        }
    }
    let gone: BTreeSet<&str> = seen
        .map(|condition| &*condition.type_)
        .filter(|gone| !kept.iter().any(|kept| kept == gone))
        .collect();
    conditions.extend(gone.into_iter().map(|gone| json!({"$patch": "delete", "type": gone})));
}

async fn delete_object(client: kube::Client, pod: &core::Pod) -> Outcome {
    let (api, name) = api(client, pod);
    let parameters = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(&name, &parameters).await {
        Ok(_) => Outcome::Deleted,
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Outcome::Vanished,
        Err(error) => {
            debug!(%error, pod = name, "cannot delete a pod that ended");
            Outcome::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news() {
        let check = |phase: &str, states: Value, want: bool| {
            let container = |state: &Value| json!({"name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
            let containers: Value = states.as_array().unwrap().iter().map(container).collect();
            let status = json!({"phase": phase, "containerStatuses": containers});
            let status: core::PodStatus = serde_json::from_value(status).unwrap();
            assert_eq!(is_plain_start(&status), want, "{phase} {states}");
        };
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        check("Pending", json!([waiting("ContainerCreating")]), true);
        check("Pending", json!([waiting("PodInitializing"), waiting("ContainerCreating")]), true);
        check("Pending", json!([waiting("ErrImagePull")]), false);
        check("Pending", json!([{"running": {}}, waiting("ContainerCreating")]), false);
        check("Running", json!([waiting("ContainerCreating")]), false);
        check("Failed", json!([]), false);
    }

    #[test]
    fn what_goes_is_named() {
        let mut wanted = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let condition = |name: &str| core::PodCondition { type_: name.to_owned(), ..Default::default() };
        let seen = ["Ready", "PodResizeInProgress", "PodResizeInProgress"].map(condition);
        name_what_goes(&mut wanted, seen.iter());
        let expected = json!({
            "phase": "Running", "reason": null, "message": null,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": null, "message": null},
                {"$patch": "delete", "type": "PodResizeInProgress"},
            ],
        });
        assert_eq!(wanted, expected);
    }
}
