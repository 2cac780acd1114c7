//! ResourceClaim: asks for devices.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};

use super::devices::{default_claim, validate_claim};
use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<ResourceClaim>(Claims).status()
}

/// So many may use one claim at once.
const MAX_CONSUMERS: usize = 256;

struct Claims;

impl Strategy for Claims {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            default_claim(spec);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate_claim(&At::root(object).field("spec"), errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("spec").unchanged(errors, &At::root(old).field("spec"));
        validate_status(&At::root(object).field("status"), &At::root(old).field("status"), errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "State", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), state(object).into(), table::age(object, now)]
    }
}

/// What is allocated stays so as long as anybody may use it: devices are not taken from running pods.
fn validate_status(new: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    let (allocation, before) = (new.field("allocation"), old.field("allocation"));
    let (reserved, holders) = (new.field("reservedFor"), old.field("reservedFor"));
    if reserved.len() > MAX_CONSUMERS {
        errors.too_many(reserved.path.clone(), reserved.len(), MAX_CONSUMERS);
    }
    let mut seen = HashSet::new();
    for consumer in reserved.items() {
        consumer.field("resource").need(errors);
        consumer.field("name").need(errors);
        let uid = consumer.field("uid");
        if uid.need(errors) && !seen.insert(uid.text()) {
            uid.duplicate(errors);
        }
    }
    if reserved.is_set() && !allocation.exists() {
        reserved.forbidden(errors, "may not be specified when `allocation` is not set");
    }
    match (before.exists(), allocation.exists()) {
        (true, true) => allocation.unchanged(errors, &before),
        (true, false) if holders.is_set() && reserved.is_set() => {
            allocation.forbidden(errors, "may not be removed while the claim is reserved");
        }
        (false, true) => {
            for result in allocation.field("devices").field("results").items() {
                for name in ["driver", "pool", "device", "request"] {
                    result.field(name).need(errors);
                }
            }
        }
        _ => {}
    }
}

fn state(object: &Value) -> String {
    let deleted = !object["metadata"]["deletionTimestamp"].is_null();
    let allocated = !object["status"]["allocation"].is_null();
    let reserved = table::count(&object["status"]["reservedFor"]) > 0;
    let states = [
        (deleted, "deleted"),
        (!deleted && !allocated, "pending"),
        (allocated, "allocated"),
        (allocated && reserved, "reserved"),
    ];
    let states: Vec<&str> = states.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
    states.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn claim(request: Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}})
    }

    #[test]
    fn defaults_and_validation() {
        check::defaults(
            "resourceclaims",
            claim(json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}})),
            claim(
                json!({"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}),
            ),
        );
        check::errors(
            "resourceclaims",
            claim(json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}})),
            &[],
        );
        check::errors(
            "resourceclaims",
            claim(json!({"name": "GPU"})),
            &[
                "spec.devices.requests[0].name: Invalid value: \"GPU\"",
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable`",
            ],
        );
        check::errors(
            "resourceclaims",
            claim(json!({"name": "gpu", "firstAvailable": [{"name": "a", "count": 0, "selectors": [{}]}]})),
            &[
                "spec.devices.requests[0].firstAvailable[0].deviceClassName: Required value",
                "spec.devices.requests[0].firstAvailable[0].selectors[0].cel: Required value",
                "spec.devices.requests[0].firstAvailable[0].count: Invalid value: 0: must be greater than zero",
            ],
        );
    }

    #[test]
    fn selectors_and_constraints_are_checked() {
        let selected = |expression: &str| {
            claim(json!({"name": "gpu", "exactly": {"deviceClassName": "gpu",
                "selectors": [{"cel": {"expression": expression}}]}}))
        };
        check::errors("resourceclaims", selected("device.driver == 'gpu.example'"), &[]);
        check::errors(
            "resourceclaims",
            selected("device.colour == 'red'"),
            &["spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value"],
        );
        let constrained = |constraint: Value| {
            let mut claim = claim(json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}}));
            claim["spec"]["devices"]["constraints"] = json!([constraint]);
            claim
        };
        let good = json!({"requests": ["gpu"], "matchAttribute": "gpu.example/numa"});
        check::errors("resourceclaims", constrained(good), &[]);
        check::errors(
            "resourceclaims",
            constrained(json!({"requests": ["nic"], "matchAttribute": "numa"})),
            &[
                "spec.devices.constraints[0].requests[0]: Invalid value: \"nic\"",
                "spec.devices.constraints[0].matchAttribute: Invalid value: \"numa\": must include a domain",
            ],
        );
    }

    #[test]
    fn devices_are_not_taken_from_whoever_has_them() {
        let with = |status: Value| {
            let mut claim = claim(json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}}));
            claim["status"] = status;
            claim
        };
        let user = json!([{"resource": "pods", "name": "p", "uid": "u"}]);
        let result = |device: &str| json!({"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": device}]}});
        let (none, held) = (json!({}), json!({"allocation": result("a"), "reservedFor": user}));
        check::update_errors("resourceclaims", with(held.clone()), with(none.clone()), &[]);
        check::update_errors("resourceclaims", with(none.clone()), with(held.clone()), &[]);
        check::update_errors(
            "resourceclaims",
            with(json!({"allocation": result("b"), "reservedFor": user})),
            with(held.clone()),
            &["status.allocation: Invalid value"],
        );
        check::update_errors(
            "resourceclaims",
            with(json!({"reservedFor": user})),
            with(held),
            &["status.reservedFor: Forbidden", "status.allocation: Forbidden"],
        );
        let bare = json!({"allocation": {"devices": {"results": [{"driver": "d"}]}}});
        check::update_errors(
            "resourceclaims",
            with(bare),
            with(none),
            &[
                "status.allocation.devices.results[0].pool: Required",
                "status.allocation.devices.results[0].device: Required",
                "status.allocation.devices.results[0].request: Required",
            ],
        );
    }

    #[test]
    fn columns() {
        let mut object = claim(json!({}));
        check::row("resourceclaims", object.clone(), &["a", "pending", "<unknown>"]);
        object["status"] = json!({"allocation": {}, "reservedFor": [{}]});
        check::row("resourceclaims", object, &["a", "allocated,reserved", "<unknown>"]);
    }
}
