//! A pod that names a RuntimeClass gets what the class says of cost and place: overhead, node selector,
//! tolerations. A class that does not exist is refused here, since no node could ever run the pod. Which
//! runtime the handler is, only the node knows.

use async_trait::async_trait;
use minik8s_api::Quantity;
use serde_json::{Map, Value};

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::Registry;

pub struct RuntimeClasses;

#[async_trait]
impl Admission for RuntimeClasses {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        if request.operation != Operation::Create || !request.is_core("pods") {
            return Ok(());
        }
        let class = match request.object["spec"]["runtimeClassName"].as_str() {
            None => Value::Null,
            Some(name) => {
                let classes = registry.built_in("node.k8s.io", "v1", "runtimeclasses")?;
                match registry.look(&classes, "", name).await {
                    Ok(class) => class,
                    Err(e) if e.code == 404 => {
                        let why = format!("pod rejected: RuntimeClass \"{name}\" not found");
                        return Err(forbidden(request, why));
                    }
                    Err(e) => return Err(e),
                }
            }
        };
        let spec = object_at(request.object, "spec");
        let applied = set_overhead(spec, &class["overhead"]["podFixed"])
            .and_then(|()| select_nodes(spec, &class["scheduling"]["nodeSelector"]));
        applied.map_err(|why| forbidden(request, why))?;
        tolerate(object_at(request.object, "spec"), &class["scheduling"]["tolerations"]);
        Ok(())
    }
}

fn forbidden(request: &Request<'_>, why: String) -> ApiError {
    ApiError::forbidden(Some(request.call.served.resource()), request.object.name(), why)
}

/// The overhead is the class's word alone: a pod may at most repeat it.
fn set_overhead(spec: &mut Map<String, Value>, fixed: &Value) -> std::result::Result<(), String> {
    let given = spec.get("overhead").filter(|given| !given.is_null());
    let Some(amounts) = fixed.as_object() else {
        return match given {
            None => Ok(()),
            Some(_) => {
                Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                    .into())
            }
        };
    };
    if given.is_some_and(|given| !same_amounts(given, amounts)) {
        return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".into());
    }
    spec.insert("overhead".into(), fixed.clone());
    Ok(())
}

fn same_amounts(given: &Value, wanted: &Map<String, Value>) -> bool {
    let Some(given) = given.as_object() else { return false };
    let same = |(name, amount): (&String, &Value)| {
        let other = given.get(name).and_then(|other| Quantity::from_json(other).ok());
        other.is_some() && other == Quantity::from_json(amount).ok()
    };
    given.len() == wanted.len() && wanted.iter().all(same)
}

fn select_nodes(spec: &mut Map<String, Value>, wanted: &Value) -> std::result::Result<(), String> {
    let Some(wanted) = wanted.as_object().filter(|wanted| !wanted.is_empty()) else { return Ok(()) };
    let slot = spec.entry("nodeSelector").or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    let Some(selector) = slot.as_object_mut() else { return Ok(()) };
    for (key, value) in wanted {
        match selector.get(key) {
            Some(own) if own != value => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    text(value),
                    text(own)
                ));
            }
            Some(_) => {}
            None => drop(selector.insert(key.clone(), value.clone())),
        }
    }
    Ok(())
}

/// The pod's tolerations and the class's; one that another of them covers is left out.
fn tolerate(spec: &mut Map<String, Value>, wanted: &Value) {
    let Some(wanted) = wanted.as_array().filter(|wanted| !wanted.is_empty()) else { return };
    let own = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    let all: Vec<_> = own.into_iter().chain(wanted.iter().cloned()).collect();
    let mut kept: Vec<Value> = Vec::new();
    for (n, toleration) in all.iter().enumerate() {
        let covered = kept.iter().any(|other| covers(other, toleration))
            || all[n + 1..].iter().any(|later| later != toleration && covers(later, toleration));
        if !covered {
            kept.push(toleration.clone());
        }
    }
    spec.insert("tolerations".into(), Value::Array(kept));
}

/// Whatever `small` tolerates, `large` tolerates too, and for at least as long.
fn covers(large: &Value, small: &Value) -> bool {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let operator = |value: &Value| value["operator"].as_str().unwrap_or("Equal").to_owned();
    let exists = |value: &Value| operator(value) == "Exists";
    let every_key = text(large, "key").is_empty() && exists(large);
    if !every_key && text(large, "key") != text(small, "key") {
        return false;
    }
    if !text(large, "effect").is_empty() && text(large, "effect") != text(small, "effect") {
        return false;
    }
    let (long, short) = (large["tolerationSeconds"].as_i64(), small["tolerationSeconds"].as_i64());
    if long.is_some_and(|long| short.is_none_or(|short| short > long)) {
        return false;
    }
    exists(large) || (operator(large) == operator(small) && text(large, "value") == text(small, "value"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn overhead() {
        let check = |given: Value, fixed: Value, want: std::result::Result<Value, &str>| {
            let mut spec = map(given.clone());
            match (set_overhead(&mut spec, &fixed), want) {
                (Ok(()), Ok(want)) => assert_eq!(Value::Object(spec), want, "{given} {fixed}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{got}"),
                (got, want) => panic!("{given} {fixed}: {got:?} {want:?}"),
            }
        };
        let fixed = json!({"cpu": "250m"});
        check(json!({}), Value::Null, Ok(json!({})));
        check(json!({}), fixed.clone(), Ok(json!({"overhead": {"cpu": "250m"}})));
        check(json!({"overhead": {"cpu": "0.25"}}), fixed.clone(), Ok(json!({"overhead": {"cpu": "250m"}})));
        check(json!({"overhead": {"cpu": "1"}}), fixed.clone(), Err("doesn't match"));
        check(json!({"overhead": {"cpu": "250m", "memory": "1"}}), fixed.clone(), Err("doesn't match"));
        check(json!({"overhead": {}}), fixed, Err("doesn't match"));
        check(json!({"overhead": {"cpu": "1"}}), Value::Null, Err("without corresponding RuntimeClass"));
    }

    #[test]
    fn node_selectors() {
        let check = |own: Value, class: Value, want: std::result::Result<Value, &str>| {
            let mut spec = map(own.clone());
            let got = select_nodes(&mut spec, &class).map(|()| Value::Object(spec));
            assert_eq!(got, want.map_err(str::to_owned), "{own} {class}");
        };
        check(json!({}), Value::Null, Ok(json!({})));
        check(json!({}), json!({"a": "1"}), Ok(json!({"nodeSelector": {"a": "1"}})));
        check(
            json!({"nodeSelector": {"a": "1", "b": "2"}}),
            json!({"a": "1", "c": "3"}),
            Ok(json!({"nodeSelector": {"a": "1", "b": "2", "c": "3"}})),
        );
        check(
            json!({"nodeSelector": {"a": "1"}}),
            json!({"a": "2"}),
            Err("conflict: runtimeClass.scheduling.nodeSelector[a] = 2; pod.spec.nodeSelector[a] = 1"),
        );
    }

    #[test]
    fn tolerations() {
        let check = |own: Value, class: Value, want: Value| {
            let mut spec = map(json!({"tolerations": own}));
            tolerate(&mut spec, &class);
            assert_eq!(spec["tolerations"], want, "{own} {class}");
        };
        let equal = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
        let exists = json!({"key": "k", "operator": "Exists"});
        let all = json!({"operator": "Exists"});
        let brief =
            json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        check(json!([equal]), json!([]), json!([equal]));
        check(json!([equal]), json!([equal]), json!([equal]));
        check(json!([equal]), json!([exists]), json!([exists]));
        check(json!([exists]), json!([equal]), json!([exists]));
        check(json!([brief]), json!([all]), json!([all]));
        check(json!([brief]), json!([equal]), json!([brief, equal]));
        check(json!([exists]), json!([brief]), json!([exists]));
    }
}
