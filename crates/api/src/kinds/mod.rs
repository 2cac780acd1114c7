//! The list of built-in kinds: one line each.

mod core;

use crate::Resource;

/// Every built-in resource, in the order in which discovery shows them.
pub fn all() -> Vec<Resource> {
    vec![core::config_map::resource()]
}
