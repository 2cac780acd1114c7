//! ResourceClaim: asks for devices.

use jiff::Timestamp;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};

use super::claim_status::validate_status;
use super::devices::{default_claim, validate_claim};
use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<ResourceClaim>(Claims).status()
}

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
        validate_status(&At::root(object), &At::root(old), errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "State", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), state(object).into(), table::age(object, now)]
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
    fn columns() {
        let mut object = claim(json!({}));
        check::row("resourceclaims", object.clone(), &["a", "pending", "<unknown>"]);
        object["status"] = json!({"allocation": {}, "reservedFor": [{}]});
        check::row("resourceclaims", object, &["a", "allocated,reserved", "<unknown>"]);
    }
}
