//! Job: runs pods until enough of them have succeeded.

use k8s_openapi::api::batch::v1::Job;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Job>(Plain).in_all().counted().status()
}
