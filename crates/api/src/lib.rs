//! The kinds: names, schemas, defaults, validation and table columns of everything the API serves.
//!
//! A kind is a file or folder below `kinds/` and one line in [`kinds::all`]. Routes, discovery, OpenAPI,
//! tables and storage keys derive from its [`Resource`]. A CustomResourceDefinition builds the same
//! [`Resource`] at run time. This crate does no IO, reads no clock and knows nothing of HTTP.

mod column;
mod cron_schedule;
mod format;
mod json_path;
pub mod kinds;
mod metadata;
mod names;
pub mod openapi;
mod quantity;
pub mod quota;
mod resource;
pub mod routing;
mod selector;
mod strategy;

pub use column::{Cell, Column, age, human_duration};
pub use cron_schedule::{CronError, CronSchedule, time_zone};
pub use json_path::{JsonPath, JsonPathError};
pub use kinds::minik8s::dns::types as dns;
pub use kinds::minik8s::scaling_decision::types as scaling_decision;
pub use metadata::{validate_metadata, validate_metadata_update};
pub use minik8s_schema::{FieldError, FieldErrorKind, FieldErrors, Path, Schema};
pub use names::NameRule;
pub use quantity::{Format as QuantityFormat, Quantity, QuantityError};
pub use resource::{Definition, Resource, Subresource};
pub use selector::{
    FieldSelector, LabelSelector, Operator, Requirement, SelectorError, validate_label_selector,
};
pub use strategy::{Part, Plain, Strategy};
