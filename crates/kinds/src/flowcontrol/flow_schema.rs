//! FlowSchema: sorts requests into priority levels.

use jiff::Timestamp;
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use serde_json::{Value, json};

use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};
use crate::{fill, table};

const DEFAULT_PRECEDENCE: i64 = 1000;
const MAX_PRECEDENCE: i64 = 10_000;

pub(crate) fn resource() -> Resource {
    Resource::of::<FlowSchema>(FlowSchemas).status().counted()
}

struct FlowSchemas;

impl Strategy for FlowSchemas {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            if spec["matchingPrecedence"] == 0 {
                fill::remove(spec, "matchingPrecedence");
            }
            fill::field(spec, "matchingPrecedence", DEFAULT_PRECEDENCE);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let precedence = spec.field("matchingPrecedence");
        precedence
            .problems(errors, format::in_range(precedence.int().unwrap_or_default(), 1, MAX_PRECEDENCE));
        let method = spec.field("distinguisherMethod");
        if method.exists() {
            method.field("type").need_one_of(errors, &["ByNamespace", "ByUser"]);
        }
        let level = spec.field("priorityLevelConfiguration").field("name");
        match level.text() {
            "" => level.required(errors, "must reference a priority level"),
            name => level.problems(errors, format::subdomain(name)),
        }
        for rule in spec.field("rules").items() {
            validate_rule(&rule, errors);
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&[
            "Name",
            "PriorityLevel",
            "MatchingPrecedence",
            "DistinguisherMethod",
            "Age",
            "MissingPL",
        ]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        let conditions = object["status"]["conditions"].as_array();
        let dangling = conditions.into_iter().flatten().find(|condition| condition["type"] == "Dangling");
        vec![
            table::name(object),
            table::text_or(&spec["priorityLevelConfiguration"]["name"], "<none>").into(),
            json!(spec["matchingPrecedence"].as_i64().unwrap_or_default()),
            table::text_or(&spec["distinguisherMethod"]["type"], "<none>").into(),
            table::age(object, now),
            dangling.map_or("?".to_owned(), |condition| table::text_or(&condition["status"], "?")).into(),
        ]
    }
}

fn validate_rule(rule: &At<'_>, errors: &mut FieldErrors) {
    let subjects = rule.field("subjects");
    if !subjects.is_set() {
        subjects.required(errors, "subjects must contain at least one value");
    }
    for subject in subjects.items() {
        let kind = subject.field("kind");
        kind.need_one_of(errors, &["Group", "ServiceAccount", "User"]);
        let field = match kind.text() {
            "Group" => "group",
            "ServiceAccount" => "serviceAccount",
            "User" => "user",
            _ => continue,
        };
        let source = subject.field(field);
        match source.exists() {
            true => drop(source.field("name").need(errors)),
            false => source
                .required(errors, &format!("{field} is required when subject kind is '{}'", kind.text())),
        }
    }
    let (resources, urls) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if !resources.is_set() && !urls.is_set() {
        rule.required(errors, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for resource in resources.items() {
        for field in ["verbs", "apiGroups", "resources"] {
            resource.field(field).need(errors);
        }
        if !resource.field("namespaces").is_set() && !resource.field("clusterScope").is_true() {
            resource.field("namespaces").required(
                errors,
                "resource rules that are not cluster scoped must supply at least one namespace",
            );
        }
    }
    for url in urls.items() {
        url.field("verbs").need(errors);
        url.field("nonResourceURLs").need(errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors(
            "flowschemas",
            json!({"spec": {"priorityLevelConfiguration": {"name": "x"}, "rules": [{
                "subjects": [{"kind": "Group", "group": {"name": "g"}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}]}}),
            &[],
        );
        check::errors(
            "flowschemas",
            json!({"spec": {"matchingPrecedence": 20000, "rules": [{"subjects": [{"kind": "User"}]}]}}),
            &[
                "spec.matchingPrecedence: Invalid value: 20000: must be between 1 and 10000",
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
                "spec.rules[0].subjects[0].user: Required value",
                "spec.rules[0]: Required value: at least one of resourceRules",
            ],
        );
    }
}
