//! ControllerRevision: one past state of a StatefulSet or DaemonSet.

use k8s_openapi::api::apps::v1::ControllerRevision;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ControllerRevision>(Plain)
}
