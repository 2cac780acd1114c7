//! Lease: a lock with a holder and a deadline.

use k8s_openapi::api::coordination::v1::Lease;

use crate::{Plain, Resource};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Lease>(Plain)
}
