//! PodDisruptionBudget: how many pods of a set may be away at once.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<PodDisruptionBudget>(Plain).short(&["pdb"]).status().counted()
}
