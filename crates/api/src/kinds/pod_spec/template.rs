//! `PodTemplateSpec`: the metadata and spec that a workload gives to its pods.

use serde_json::Value;

use super::defaults;
use crate::kinds::fill;

/// Fills in the template in a field of a workload's spec.
pub(in crate::kinds) fn fill_in(holder: &mut Value, field: &str) {
    let Some(template) = holder.get_mut(field).filter(|template| template.is_object()) else { return };
    drop_creation_time(template);
    if let Some(spec) = template.get_mut("spec") {
        defaults::template_spec(spec);
    }
}

/// Old clients send `creationTimestamp: null` in templates; nothing was created.
pub(in crate::kinds) fn drop_creation_time(template: &mut Value) {
    if let Some(metadata) = template.get_mut("metadata")
        && metadata["creationTimestamp"].is_null()
    {
        fill::remove(metadata, "creationTimestamp");
    }
}
