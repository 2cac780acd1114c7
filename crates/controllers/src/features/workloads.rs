//! Deployments, StatefulSets, DaemonSets, Jobs and what they are made of.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use minik8s_feature::{Parts, ServerFeature};

use crate::cron_job::CronJobs;
use crate::daemon_set::DaemonSets;
use crate::deployment::Deployments;
use crate::disruption::DisruptionBudgets;
use crate::job::{Jobs, LostJobPods};
use crate::replica_set::Replicas;
use crate::stateful_set::StatefulSets;

pub struct Workloads;

impl ServerFeature for Workloads {
    fn name(&self) -> &'static str {
        "workloads"
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(Replicas::<ReplicaSet>::default());
        parts.controller(Replicas::<ReplicationController>::default());
        parts.controller(Deployments);
        parts.controller(DaemonSets);
        parts.controller(StatefulSets);
        parts.controller(Jobs);
        parts.controller(LostJobPods);
        parts.controller(CronJobs);
        parts.controller(DisruptionBudgets);
    }
}
