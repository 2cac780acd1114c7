//! HorizontalPodAutoscaler: replicas that follow the load. Stored as v2.

mod v1;
mod v2;

pub(in crate::kinds) use v1::resource as v1;
pub(in crate::kinds) use v2::resource as v2;
