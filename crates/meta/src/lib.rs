//! The small vocabulary that server, agents and command line share: quantities, selectors, names, schedules, JSON paths,
//! and the types of our own kinds.
//!
//! It is light on purpose, since everything is built on it: no schema, no IO, no clock, nothing of HTTP. What only the
//! API server needs to know of a kind is in `minik8s-api`.

mod backoff;
mod cidrs;
mod cron_schedule;
mod duration;
mod error_chain;
mod field_condition;
pub mod format;
mod json_path;
pub mod local_volume;
mod names;
mod own;
pub mod packaged_image;
mod quantity;
pub mod quota;
pub mod routing;
mod selector;
pub mod shared_storage;
pub mod volume_fullness;

pub use backoff::{Backoff, Retries};
pub use cidrs::{Cidrs, CidrsError, IpFamily, nth_address};
pub use cron_schedule::{CronError, CronSchedule, time_zone};
pub use duration::human_duration;
pub use error_chain::{error_chain, with_causes};
pub use field_condition::FieldCondition;
pub use json_path::{JsonPath, JsonPathError};
pub use names::NameRule;
pub use own::{
    api_version, destination, dns, function, function_call, gateway, image_repository, invocation, kind,
    mesh, pod_address, resource_metrics, scaling_decision, snapshot, trigger,
};
pub use quantity::{Format as QuantityFormat, Quantity, QuantityError};
pub use selector::{FieldSelector, LabelSelector, Operator, Requirement, SelectorError};
