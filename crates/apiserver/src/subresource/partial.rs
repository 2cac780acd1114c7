//! Which part of an object a write through each subresource may change.

use minik8s_api::Subresource;
use serde_json::{Value, json};

use crate::object::object_at;
use crate::registry::Call;

/// Puts back everything in `new` that the subresource (or the main resource) does not own.
pub fn restrict(call: &Call, new: &mut Value, old: &Value) {
    match call.subresource.as_str() {
        "" | "scale" => {
            if call.served.has_status() {
                copy(new, old, "status");
            }
            if has_finalize(call) {
                object_at(new, "spec");
                copy(&mut new["spec"], &old["spec"], "finalizers");
            }
        }
        "status" if call.served.is_custom() => only(new, old, |kept, new| copy(kept, new, "status")),
        "status" => put_back(new, old, &["metadata", "status"]),
        "approval" => {
            let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
            copy(&mut status, &new["status"], "conditions");
            new["status"] = status;
            put_back(new, old, &["metadata", "status"]);
        }
        "finalize" => only(new, old, |kept, new| {
            object_at(kept, "spec");
            copy(&mut kept["spec"], &new["spec"], "finalizers");
        }),
        "ephemeralcontainers" => {
            only(new, old, |kept, new| copy(&mut kept["spec"], &new["spec"], "ephemeralContainers"))
        }
        "resize" => only(new, old, resize),
        // Binding and eviction are made by the server itself.
        _ => {}
    }
}

/// Whether `spec.finalizers` belongs to a subresource of its own (namespaces).
fn has_finalize(call: &Call) -> bool {
    let subresources = &call.served.resource().subresources;
    subresources.iter().any(|one| matches!(one, Subresource::Other { name: "finalize", .. }))
}

/// Makes `new` what `old` is, but for these fields. Most writes leave the others alone, so that there is little to copy.
fn put_back(new: &mut Value, old: &Value, but: &[&str]) {
    let (Value::Object(new), Value::Object(old)) = (new, old) else { return };
    new.retain(|name, _| but.contains(&name.as_str()) || old.contains_key(name));
    for (name, value) in old.iter().filter(|(name, _)| !but.contains(&name.as_str())) {
        if new.get(name) != Some(value) {
            new.insert(name.clone(), value.clone());
        }
    }
}

/// The old object with one part of the new one, and its version so that conflicts are still seen.
fn only(new: &mut Value, old: &Value, take: impl Fn(&mut Value, &Value)) {
    let mut kept = old.clone();
    take(&mut kept, new);
    kept["metadata"]["resourceVersion"] = new["metadata"]["resourceVersion"].clone();
    *new = kept;
}

/// Resources and resize policies of containers that exist, matched by name.
fn resize(kept: &mut Value, new: &Value) {
    for list in ["containers", "initContainers"] {
        let containers =
            kept.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let others = new["spec"][list].as_array().into_iter().flatten();
            let Some(wanted) = others.into_iter().find(|other| other["name"] == container["name"]) else {
                continue;
            };
            for field in ["resources", "resizePolicy"] {
                copy(container, wanted, field);
            }
        }
    }
}

fn copy(to: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => {
            if let Some(map) = to.as_object_mut() {
                map.shift_remove(field);
            }
        }
    }
}
