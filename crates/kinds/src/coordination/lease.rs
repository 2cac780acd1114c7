//! Lease: a lock with a holder and a deadline.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::Value;

use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<Lease>(Leases).created_by_put().versioned_puts()
}

struct Leases;

impl Strategy for Leases {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let duration = spec.field("leaseDurationSeconds");
        if duration.int().is_some_and(|seconds| seconds <= 0) {
            duration.invalid(errors, "must be greater than 0");
        }
        spec.field("leaseTransitions").not_negative(errors);
        let strategy = spec.field("strategy");
        strategy.has_form(errors, |name| match name.contains('/') {
            true => format::qualified_name(name),
            false if name == "OldestEmulationVersion" => Vec::new(),
            false => vec!["must be a fully qualified name or OldestEmulationVersion".to_owned()],
        });
        let preferred = spec.field("preferredHolder");
        if preferred.is_set() && !strategy.is_set() {
            preferred.forbidden(errors, "may only be specified if `strategy` is defined");
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Holder", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            table::text_or(&object["spec"]["holderIdentity"], "").into(),
            table::age(object, now),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors("leases", json!({"spec": {"leaseDurationSeconds": 15, "leaseTransitions": 0}}), &[]);
        check::errors(
            "leases",
            json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}),
            &[
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
    }
}
