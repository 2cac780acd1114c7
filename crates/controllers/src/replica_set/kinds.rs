//! How the two kinds spell the same things.

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    PodTemplateSpec, ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use minik8s_runtime::{Object, Selector};

/// Keeps a number of pods of a template.
pub trait Replicated: Object {
    const CONTROLLER: &'static str;
    fn selector(&self) -> Selector;
    fn replicas(&self) -> i32;
    fn min_ready_seconds(&self) -> i32;
    fn template(&self) -> Option<&PodTemplateSpec>;
    fn status(&self) -> ReplicatedStatus;
    fn set_status(&mut self, status: ReplicatedStatus);
}

/// The status both have, in one form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReplicatedStatus {
    pub replicas: i32,
    pub fully_labeled: i32,
    pub ready: i32,
    pub available: i32,
    pub terminating: i32,
    pub observed_generation: Option<i64>,
    /// Why pods could not be created or deleted: reason, message, since.
    pub failure: Option<(String, String, Option<Time>)>,
}

const FAILURE: &str = "ReplicaFailure";

/// Upstream leaves out zeros, and so do we: a status that differs only in that is no change.
fn some(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

impl Replicated for ReplicaSet {
    const CONTROLLER: &'static str = "replicaset-controller";

    fn selector(&self) -> Selector {
        Selector::new(Some(&self.spec.selector))
    }

    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.min_ready_seconds.unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.template.as_ref()
    }

    fn status(&self) -> ReplicatedStatus {
        let status = self.status.clone().unwrap_or_default();
        let failure =
            status.conditions.unwrap_or_default().into_iter().find(|c| c.type_.as_deref() == Some(FAILURE));
        ReplicatedStatus {
            replicas: status.replicas,
            fully_labeled: status.fully_labeled_replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
            terminating: status.terminating_replicas.unwrap_or(0),
            observed_generation: status.observed_generation,
            failure: failure.map(|c| {
                (c.reason.unwrap_or_default(), c.message.unwrap_or_default(), c.last_transition_time)
            }),
        }
    }

    fn set_status(&mut self, status: ReplicatedStatus) {
        let old = self.status.take().unwrap_or_default();
        let mut conditions = old.conditions.unwrap_or_default();
        conditions.retain(|c| c.type_.as_deref() != Some(FAILURE));
        conditions.extend(status.failure.map(|(reason, message, since)| ReplicaSetCondition {
            type_: Some(FAILURE.to_owned()),
            status: Some("True".to_owned()),
            reason: Some(reason),
            message: Some(message),
            last_transition_time: since,
        }));
        self.status = Some(ReplicaSetStatus {
            replicas: status.replicas,
            fully_labeled_replicas: some(status.fully_labeled),
            ready_replicas: some(status.ready),
            available_replicas: some(status.available),
            terminating_replicas: Some(status.terminating),
            observed_generation: status.observed_generation,
            conditions: Some(conditions).filter(|c| !c.is_empty()),
        });
    }
}

impl Replicated for ReplicationController {
    const CONTROLLER: &'static str = "replication-controller";

    fn selector(&self) -> Selector {
        Selector::equal(self.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
    }

    fn replicas(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    fn min_ready_seconds(&self) -> i32 {
        self.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref()?.template.as_ref()
    }

    fn status(&self) -> ReplicatedStatus {
        let status = self.status.clone().unwrap_or_default();
        let failure = status.conditions.unwrap_or_default().into_iter().find(|c| c.type_ == FAILURE);
        ReplicatedStatus {
            replicas: status.replicas,
            fully_labeled: status.fully_labeled_replicas.unwrap_or(0),
            ready: status.ready_replicas.unwrap_or(0),
            available: status.available_replicas.unwrap_or(0),
            terminating: 0,
            observed_generation: status.observed_generation,
            failure: failure.map(|c| {
                (c.reason.unwrap_or_default(), c.message.unwrap_or_default(), c.last_transition_time)
            }),
        }
    }

    fn set_status(&mut self, status: ReplicatedStatus) {
        let old = self.status.take().unwrap_or_default();
        let mut conditions = old.conditions.unwrap_or_default();
        conditions.retain(|c| c.type_ != FAILURE);
        conditions.extend(status.failure.map(|(reason, message, since)| ReplicationControllerCondition {
            type_: FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason),
            message: Some(message),
            last_transition_time: since,
        }));
        self.status = Some(ReplicationControllerStatus {
            replicas: status.replicas,
            fully_labeled_replicas: some(status.fully_labeled),
            ready_replicas: some(status.ready),
            available_replicas: some(status.available),
            observed_generation: status.observed_generation,
            conditions: Some(conditions).filter(|c| !c.is_empty()),
        });
    }
}
