//! Quantities in their one canonical form, so that `0.5` and `500m` are stored alike.
//!
//! What is no quantity stays as it is: validation reports it.

use serde_json::Value;

use crate::Quantity;

/// `limits` and `requests` of something with `resources`.
pub(crate) fn canonical_resources(holder: &mut Value) {
    if let Some(resources) = holder.get_mut("resources") {
        canonical_field(resources, "limits");
        canonical_field(resources, "requests");
    }
}

/// The resource list in a field, where there is one.
pub(crate) fn canonical_field(holder: &mut Value, field: &str) {
    if let Some(list) = holder.get_mut(field) {
        canonical_list(list);
    }
}

/// Resource name → quantity. Nothing finer than a thousandth has a meaning here, so it rounds up.
fn canonical_list(list: &mut Value) {
    for (_, value) in list.as_object_mut().into_iter().flatten() {
        if let Ok(quantity) = Quantity::from_json(value) {
            *value = quantity.rounded_up_to_milli().to_string().into();
        }
    }
}

/// A single quantity.
pub(super) fn canonical(holder: &mut Value, field: &str) {
    if let Some(value) = holder.get_mut(field)
        && let Ok(quantity) = Quantity::from_json(value)
    {
        *value = quantity.to_string().into();
    }
}
