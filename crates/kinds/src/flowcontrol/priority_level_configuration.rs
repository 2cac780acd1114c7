//! PriorityLevelConfiguration: a share of the server for a class of requests.

use jiff::Timestamp;
use k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration;
use serde_json::{Value, json};

use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<PriorityLevelConfiguration>(Levels).status().counted()
}

struct Levels;

impl Strategy for Levels {
    fn default(&self, object: &mut Value) {
        let Some(spec) = fill::object(object, "spec") else { return };
        if let Some(exempt) = spec.get_mut("exempt") {
            fill::field(exempt, "nominalConcurrencyShares", 0);
            fill::field(exempt, "lendablePercent", 0);
        }
        if let Some(limited) = spec.get_mut("limited") {
            fill::field(limited, "nominalConcurrencyShares", 30);
            fill::field(limited, "lendablePercent", 0);
            if let Some(queuing) = limited.pointer_mut("/limitResponse/queuing") {
                fill::field(queuing, "queues", 64);
                fill::field(queuing, "handSize", 8);
                fill::field(queuing, "queueLengthLimit", 50);
            }
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let (exempt, limited) = (spec.field("exempt"), spec.field("limited"));
        let ty = spec.field("type");
        ty.need_one_of(errors, &["Exempt", "Limited"]);
        match ty.text() {
            "Exempt" if limited.exists() => {
                limited.forbidden(errors, "must be nil if the type is not Limited");
            }
            "Limited" => {
                if exempt.exists() {
                    exempt.forbidden(errors, "must be nil if the type is Limited");
                }
                match limited.exists() {
                    true => validate_limited(&limited, errors),
                    false => limited.required(errors, "must not be empty when type is Limited"),
                }
            }
            _ => {}
        }
        for part in [exempt, limited] {
            part.field("nominalConcurrencyShares").not_negative(errors);
            let lendable = part.field("lendablePercent");
            lendable.problems(errors, format::in_range(lendable.int().unwrap_or_default(), 0, 100));
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&[
            "Name",
            "Type",
            "NominalConcurrencyShares",
            "Queues",
            "HandSize",
            "QueueLengthLimit",
            "Age",
        ]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        let part = if spec["limited"].is_null() { &spec["exempt"] } else { &spec["limited"] };
        let queuing = &spec["limited"]["limitResponse"]["queuing"];
        let number = |value: &Value| json!(table::text_or(value, table::NONE));
        vec![
            table::name(object),
            table::text_or(&spec["type"], "").into(),
            number(&part["nominalConcurrencyShares"]),
            number(&queuing["queues"]),
            number(&queuing["handSize"]),
            number(&queuing["queueLengthLimit"]),
            table::age(object, now),
        ]
    }
}

fn validate_limited(limited: &At<'_>, errors: &mut FieldErrors) {
    limited.field("borrowingLimitPercent").not_negative(errors);
    let response = limited.field("limitResponse");
    let (ty, queuing) = (response.field("type"), response.field("queuing"));
    ty.need_one_of(errors, &["Queue", "Reject"]);
    match (ty.text(), queuing.exists()) {
        ("Reject", true) => {
            queuing.forbidden(errors, "must be nil if limited.limitResponse.type is not Limited");
        }
        ("Queue", false) => {
            queuing.required(errors, "must not be empty if limited.limitResponse.type is Limited");
        }
        _ => {}
    }
    for field in ["queues", "handSize", "queueLengthLimit"].map(|name| queuing.field(name)) {
        if field.int().is_some_and(|number| number <= 0) {
            field.invalid(errors, "must be positive");
        }
    }
    let (hand, queues) = (queuing.field("handSize"), queuing.field("queues"));
    if let (Some(size), Some(all)) = (hand.int(), queues.int())
        && size > all
    {
        hand.invalid(errors, format!("should not be greater than queues ({all})"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn defaults_and_columns() {
        let object = check::defaulted(
            "prioritylevelconfigurations",
            json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}}),
        );
        check::errors("prioritylevelconfigurations", object.clone(), &[]);
        check::row(
            "prioritylevelconfigurations",
            object,
            &["a", "Limited", "30", "64", "8", "50", "<unknown>"],
        );
    }

    #[test]
    fn validation() {
        check::errors(
            "prioritylevelconfigurations",
            json!({"spec": {"type": "Limited"}}),
            &["spec.limited: Required value: must not be empty when type is Limited"],
        );
        check::errors(
            "prioritylevelconfigurations",
            json!({"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"handSize": 9, "queues": 8}}}}}),
            &[
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 9: should not be greater than queues (8)",
            ],
        );
    }
}
