//! HorizontalPodAutoscaler: replicas that follow the load.
//!
//! Served as autoscaling/v2 and v1, stored as v2. What v1 has no fields for travels in annotations, so that
//! a v1 client that reads and writes an object back loses nothing.

mod columns;
mod convert;
mod defaults;
mod v1;
mod v2;
mod validate;
mod validate_metrics;

pub(crate) use v1::resource as v1;
pub(crate) use v2::resource as v2;

#[cfg(test)]
mod tests;
