//! CronJob: starts Jobs by the clock.

use k8s_openapi::api::batch::v1::CronJob;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<CronJob>(Plain).short(&["cj"]).in_all().counted().status()
}
