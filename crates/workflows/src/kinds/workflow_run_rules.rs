//! What a WorkflowRun may say, and how it is listed.

use jiff::Timestamp;
use minik8s_api::{At, Cell, Column, FieldErrors, Resource, Strategy, fill, table};
use minik8s_asl::engine::LARGEST_PAYLOAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::WorkflowRun;

pub fn resource() -> Resource {
    Resource::of::<WorkflowRun>(Rules).short(&["wfr"]).status().state_metrics(super::run_state_metrics::write)
}

/// The name of the run that a key stands for: the same key and workflow give the same name, so that a second run
/// cannot be made.
pub fn run_name(workflow: &str, key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let hex: String = digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    let workflow: String = workflow.chars().take(200).collect();
    format!("{workflow}-{hex}")
}

struct Rules;

impl Strategy for Rules {
    fn default(&self, object: &mut Value) {
        let (workflow, key) =
            (object["spec"]["workflow"].as_str(), object["spec"]["idempotencyKey"].as_str());
        if let (Some(workflow), Some(key)) = (workflow, key)
            && object["metadata"]["name"].as_str().unwrap_or_default().is_empty()
        {
            let name = run_name(workflow, key);
            if let Some(metadata) = fill::object(object, "metadata") {
                metadata["name"] = name.into();
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let workflow = spec.field("workflow");
        workflow.need(errors);
        spec.field("redrives").not_negative(errors);
        let input = spec.field("input");
        if input.value.to_string().len() > LARGEST_PAYLOAD {
            input.forbidden(errors, "the input of a run has at most 256 KiB");
        }
        let key = spec.field("idempotencyKey");
        if key.is_set() {
            let name = run_name(workflow.text(), key.text());
            if object["metadata"]["name"] != json!(name) {
                let detail = format!("a run with this key is named {name}: leave metadata.name out");
                At::root(object).field("metadata").field("name").invalid(errors, detail);
            }
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
        for field in ["workflow", "input", "idempotencyKey", "iteration"] {
            new.field(field).unchanged(errors, &old.field(field));
        }
        let count = |spec: &At<'_>| spec.field("redrives").int().unwrap_or(0);
        if count(&new) < count(&old) {
            new.field("redrives").invalid(errors, "may only grow: each is one more try");
        }
    }

    fn keeps_records(&self) -> bool {
        true
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(
            &["Name", "Workflow", "Phase", "State", "Error", "Duration", "Age"],
            &["Cause"],
        ))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let status = &object["status"];
        vec![
            table::name(object),
            table::text_or(&object["spec"]["workflow"], "").into(),
            table::text_or(&status["phase"], "Pending").into(),
            table::joined_or(&status["currentStates"], table::NONE).into(),
            table::text_or(&status["error"], table::NONE).into(),
            duration(status, now).into(),
            table::age(object, now),
            table::text_or(&status["cause"], table::NONE).into(),
        ]
    }
}

fn duration(status: &Value, now: Timestamp) -> String {
    let time = |field: &str| status[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let Some(start) = time("startTime") else { return table::NONE.to_owned() };
    let end = time("completionTime").unwrap_or(now);
    minik8s_api::human_duration(end.as_second() - start.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors_of(object: &Value) -> Vec<String> {
        let mut errors = FieldErrors::default();
        Rules.validate(object, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn idempotency_key_names_the_run() {
        let mut one = json!({"spec": {"workflow": "pay", "idempotencyKey": "order-1"}});
        Rules.default(&mut one);
        assert_eq!(one["metadata"]["name"], run_name("pay", "order-1"));
        assert_eq!(errors_of(&one), Vec::<String>::new());
        one["metadata"]["name"] = "mine".into();
        assert!(errors_of(&one)[0].starts_with("metadata.name: Invalid value: \"mine\""));
        assert_ne!(run_name("pay", "order-1"), run_name("pay", "order-2"));
    }

    #[test]
    fn input_is_bounded_and_spec_is_fixed() {
        let large = json!({"spec": {"workflow": "pay", "input": "x".repeat(300_000)}});
        assert!(errors_of(&large)[0].starts_with("spec.input: Forbidden"));
        let old = json!({"spec": {"workflow": "pay", "input": 1, "redrives": 2}});
        let new = json!({"spec": {"workflow": "pay", "input": 2, "redrives": 1, "stop": {}}});
        let mut errors = FieldErrors::default();
        Rules.validate_update(&new, &old, &mut errors);
        let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
    }
}
