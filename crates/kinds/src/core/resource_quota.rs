//! ResourceQuota: bounds the sum of what a namespace uses.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use serde_json::{Value, json};

use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};
use crate::{fill, table};

/// Amounts that a quota may bound without a domain in front of the name.
const AMOUNTS: &[&str] = &[
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

/// The same for whole numbers of objects.
const COUNTS: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

pub(crate) fn resource() -> Resource {
    Resource::of::<ResourceQuota>(Quotas).short(&["quota"]).status()
}

struct Quotas;

impl Strategy for Quotas {
    fn prepare_create(&self, object: &mut Value) {
        fill::object(object, "spec");
        object["status"] = json!({});
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        let spec = root.field("spec");
        for (name, amount) in spec.field("hard").entries() {
            validate_amount(name, &amount, errors);
        }
        validate_scopes(&spec, errors);
        for part in ["hard", "used"].map(|name| root.field("status").field(name)) {
            for (name, amount) in part.entries() {
                validate_amount(name, &amount, errors);
            }
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let scopes = |object| At::root(object).field("spec").field("scopes");
        let sorted = |scopes: &At<'_>| {
            let mut list: Vec<String> = scopes.items().map(|scope| scope.text().to_owned()).collect();
            list.sort();
            list
        };
        if sorted(&scopes(object)) != sorted(&scopes(old)) {
            scopes(object).invalid(errors, "field is immutable");
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Request", "Limit", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            usage(object, false).into(),
            usage(object, true).into(),
            table::age(object, now),
        ]
    }
}

fn validate_amount(name: &str, amount: &At<'_>, errors: &mut FieldErrors) {
    let problems = format::qualified_name(name);
    let well_formed = problems.is_empty();
    for problem in problems {
        errors.invalid(amount.path.clone(), name, problem);
    }
    let huge = name.strip_prefix("requests.").unwrap_or(name).starts_with("hugepages-");
    let standard = huge || AMOUNTS.contains(&name) || COUNTS.contains(&name);
    if well_formed && !standard && !name.contains('/') {
        errors.invalid(amount.path.clone(), name, "must be a standard resource for quota");
    }
    let quantity = amount.quantity_not_negative(errors);
    if COUNTS.contains(&name) && quantity.is_some_and(|quantity| !quantity.is_whole()) {
        amount.invalid(errors, "must be an integer");
    }
}

fn validate_scopes(spec: &At<'_>, errors: &mut FieldErrors) {
    let scopes = spec.field("scopes");
    let selected = spec.field("scopeSelector").field("matchExpressions");
    for scope in scopes.items().filter(|scope| !SCOPES.contains(&scope.text())) {
        errors.invalid(scopes.path.clone(), scope.value.clone(), "unsupported scope");
    }
    for expression in selected.items() {
        let name = expression.field("scopeName");
        if !SCOPES.contains(&name.text()) {
            name.invalid(errors, "unsupported scope");
        }
        validate_operator(&expression, errors);
    }
    let named: Vec<&str> = scopes
        .items()
        .map(|scope| scope.text())
        .chain(selected.items().map(|expression| expression.field("scopeName").text()))
        .collect();
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if named.contains(&one) && named.contains(&other) {
            scopes.invalid(errors, "conflicting scopes");
        }
    }
    for (name, _) in spec.field("hard").entries() {
        if named.iter().any(|scope| !scope_fits(scope, name)) {
            scopes.invalid(errors, "unsupported scope applied to resource");
        }
    }
}

fn validate_operator(expression: &At<'_>, errors: &mut FieldErrors) {
    let (operator, values) = (expression.field("operator"), expression.field("values"));
    let name = expression.field("scopeName").text();
    let by_value = matches!(name, "PriorityClass" | "VolumeAttributesClass");
    match operator.text() {
        "In" | "NotIn" if !by_value => {
            operator.invalid(errors, "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
        }
        "In" | "NotIn" if !values.is_set() => {
            values.required(
                errors,
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            );
        }
        "Exists" | "DoesNotExist" if values.is_set() => {
            values.invalid(
                errors,
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            );
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => operator.invalid(errors, "not a valid selector operator"),
    }
}

/// Scopes choose pods (or claims): they bound only what those have.
fn scope_fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods" || resource == "count/pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "count/persistentvolumeclaims" | "requests.storage")
                || resource.contains(".storageclass.storage.k8s.io/")
        }
        "NotBestEffort"
        | "NotTerminating"
        | "PriorityClass"
        | "Terminating"
        | "CrossNamespacePodAffinity" => {
            let amount = AMOUNTS.contains(&resource) && resource != "requests.storage";
            amount
                || resource == "pods"
                || resource == "count/pods"
                || resource.contains("hugepages-")
                || (resource.starts_with("requests.") && resource.contains('/'))
        }
        _ => true,
    }
}

/// `cpu: 1/2, memory: 1Gi/4Gi`: used and hard, limits apart from the rest.
fn usage(object: &Value, limits: bool) -> String {
    let status = &object["status"];
    let mut names: Vec<&String> =
        status["hard"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
    names.sort();
    let parts: Vec<String> = names
        .into_iter()
        .filter(|name| name.starts_with("limits.") == limits)
        .map(|name| {
            let amount = |part: &str| table::text_or(&status[part][name], "0");
            format!("{name}: {}/{}", amount("used"), amount("hard"))
        })
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors(
            "resourcequotas",
            json!({"spec": {"hard": {"pods": "10", "requests.cpu": "1", "count/widgets.example.com": "3", "requests.nvidia.com/gpu": 1}}}),
            &[],
        );
        check::errors(
            "resourcequotas",
            json!({"spec": {"hard": {"pods": "1500m", "robots": "1", "cpu": "-1"}}}),
            &[
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
                "spec.hard[robots]: Invalid value: \"robots\": must be a standard resource for quota",
                "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        );
        check::errors(
            "resourcequotas",
            json!({"spec": {"scopes": ["BestEffort", "NotBestEffort", "X"], "hard": {"cpu": "1"}}}),
            &[
                "spec.scopes: Invalid value: \"X\": unsupported scope",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"X\"]: conflicting scopes",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"X\"]: unsupported scope applied",
            ],
        );
        check::errors(
            "resourcequotas",
            json!({"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}}),
            &["spec.scopeSelector.matchExpressions[0].values: Required value"],
        );
        check::update_errors(
            "resourcequotas",
            json!({"spec": {"scopes": ["Terminating"]}}),
            json!({"spec": {}}),
            &["spec.scopes: Invalid value: [\"Terminating\"]: field is immutable"],
        );
    }

    #[test]
    fn columns() {
        check::row(
            "resourcequotas",
            json!({"metadata": {"name": "a"}, "status": {
                "hard": {"pods": "10", "limits.cpu": "4", "cpu": "2"}, "used": {"pods": "3", "cpu": "1"}}}),
            &["a", "cpu: 1/2, pods: 3/10", "limits.cpu: 0/4", "<unknown>"],
        );
    }
}
