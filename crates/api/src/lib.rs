//! The kinds: names, schemas, defaults, validation and table columns of everything the API serves.
//!
//! A kind is a file or folder below `kinds/` and one line in [`kinds::all`]. Routes, discovery, OpenAPI,
//! tables and storage keys derive from its [`Resource`]. A CustomResourceDefinition builds the same
//! [`Resource`] at run time. This crate does no IO, reads no clock and knows nothing of HTTP.

mod column;
pub mod kinds;
mod names;
pub mod openapi;
mod resource;
mod strategy;

pub use column::{Cell, Column};
pub use minik8s_schema::{FieldError, FieldErrorKind, FieldErrors, Path, Schema};
pub use names::NameRule;
pub use resource::{Definition, Resource, Subresource};
pub use strategy::{Plain, Strategy};
