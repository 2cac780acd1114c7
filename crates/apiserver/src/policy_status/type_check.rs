//! Type checking of one policy, against every kind that its rules name.

use std::collections::BTreeSet;
use std::sync::Arc;

use minik8s_cel::policy::{Scope, Variables};
use minik8s_cel::{Declaration, Environment, Program, Type};
use serde_json::{Value, json};

use super::declaration::declaration;
use crate::catalog::{Served, Snapshot};

/// A policy about more kinds is checked against these only.
const MOST_KINDS: usize = 10;

/// A warning for each expression that does not fit, with the field it stands in.
pub fn check(snapshot: &Snapshot, policy: &Value) -> Vec<Value> {
    let spec = &policy["spec"];
    let kinds: Vec<(String, Environment)> = kinds(snapshot, spec)
        .iter()
        .map(|served| (shown(served), environment(snapshot, served, spec)))
        .collect();
    let mut warnings = Vec::new();
    for (index, validation) in spec["validations"].as_array().into_iter().flatten().enumerate() {
        for field in ["expression", "messageExpression"] {
            let Some(expression) = validation[field].as_str().filter(|text| !text.is_empty()) else {
                continue;
            };
            let found: Vec<String> =
                kinds.iter().filter_map(|(kind, environment)| fault(kind, environment, expression)).collect();
            if !found.is_empty() {
                let place = format!("spec.validations[{index}].{field}");
                warnings.push(json!({"fieldRef": place, "warning": found.join("\n")}));
            }
        }
    }
    warnings
}

fn fault(kind: &str, environment: &Environment, expression: &str) -> Option<String> {
    let errors = Program::compile(environment, expression).err()?;
    Some(format!("{kind}: {errors}\n"))
}

/// As upstream prints a kind.
fn shown(served: &Served) -> String {
    format!("{}, Kind={}", served.api_version, served.kind)
}

fn environment(snapshot: &Snapshot, served: &Served, spec: &Value) -> Environment {
    let kind = &spec["paramKind"];
    let params = kind["apiVersion"].as_str().zip(kind["kind"].as_str()).and_then(|(api_version, kind)| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        snapshot.find_kind(group, version, kind)
    });
    let of = |served: Option<&Arc<Served>>, name: &str| {
        let known = served.and_then(|served| declaration(served.schema(), name));
        known.unwrap_or_else(|| Declaration::of_type(Type::Dyn))
    };
    let object = declaration(served.schema(), &served.kind);
    let object = object.unwrap_or_else(|| Declaration::of_type(Type::Dyn));
    let scope = Scope { params: kind.is_object(), authorizer: true, mutation: false };
    let environment = scope.environment_of(object, of(params, "params"));
    let mut variables = Variables::default();
    for variable in spec["variables"].as_array().into_iter().flatten() {
        let text = |field: &str| variable[field].as_str().unwrap_or_default();
        // One that does not fit is of any type to those that read it.
        let _ = variables.add(&environment, text("name"), text("expression"));
    }
    variables.declare(environment)
}

/// What the rules name without wildcards, sorted by group, version and kind.
fn kinds(snapshot: &Snapshot, spec: &Value) -> Vec<Arc<Served>> {
    let mut named: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    for rule in spec["matchConstraints"]["resourceRules"].as_array().into_iter().flatten() {
        let list = |field: &str| -> Vec<&str> {
            rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let (groups, versions) = (list("apiGroups"), list("apiVersions"));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        for resource in list("resources").into_iter().filter(|name| !name.contains(['*', '/'])) {
            for group in &groups {
                named.extend(versions.iter().map(|version| (*group, *version, resource)));
            }
        }
    }
    let found =
        named.into_iter().filter_map(|(group, version, plural)| snapshot.find(group, version, plural));
    let mut found: Vec<Arc<Served>> = found.take(MOST_KINDS).cloned().collect();
    found.sort_by(|a, b| (&a.group, &a.version, &a.kind).cmp(&(&b.group, &b.version, &b.kind)));
    found
}
