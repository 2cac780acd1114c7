//! PrometheusRule of monitoring.coreos.com/v1: groups of rules that the engine evaluates beside ours.
//!
//! What an engine would refuse is refused when it is written (`validate.rs`), since one bad file keeps it from reading all
//! others. What is there becomes files of a ConfigMap (`file.rs`), which the engine is told to read again (`follow.rs`).

mod file;
mod follow;
mod template;
mod validate;

pub use follow::follow;
pub use validate::resource;

/// The ConfigMap in [`crate::install::NAMESPACE`] that has the files.
pub const CONFIG_MAP: &str = "user-rules";
