//! Every way to change an object without sending all of it, and the bookkeeping of who owns which field.
//!
//! | Module | What it does |
//! |---|---|
//! | [`json`] | JSON patch, RFC 6902 |
//! | [`merge`] | JSON merge patch, RFC 7386 |
//! | [`strategic`] | Kubernetes' strategic merge patch, which merges lists by key |
//! | [`apply`] | server-side apply: merge a configuration, detect conflicts, remove what was dropped |
//! | [`managed`] | `metadata.managedFields`: who owns what, kept up to date by every other write |
//! | [`fieldset`] | sets of field paths and their FieldsV1 form |
//!
//! All of it is pure: JSON in, JSON out, driven by the same [`minik8s_schema::Schema`] that validates the
//! object. Nothing here reads a clock, checks types, fills in defaults or knows a kind by name. Work and
//! depth are bounded, since patches come from clients.

pub mod apply;
mod depth;
mod error;
pub mod fieldset;
pub mod json;
pub mod managed;
pub mod merge;
mod number;
mod pointer;
pub mod strategic;
mod typed;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod sample;

pub use error::PatchError;
