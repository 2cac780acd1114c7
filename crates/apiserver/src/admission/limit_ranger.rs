//! LimitRanges: default requests and limits for containers, and bounds for pods, containers and claims.

use async_trait::async_trait;
use minik8s_api::Quantity;
use serde_json::{Map, Value};

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::Registry;

pub struct LimitRanger;

#[async_trait]
impl Admission for LimitRanger {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        if request.operation != Operation::Create {
            return Ok(());
        }
        let (pods, claims) = (request.is_core("pods"), request.is_core("persistentvolumeclaims"));
        if !pods && !claims {
            return Ok(());
        }
        let ranges = registry.built_in("", "v1", "limitranges")?;
        let ranges = registry.all(&ranges, &request.call.namespace).await?;
        let limits: Vec<&Value> =
            ranges.iter().flat_map(|r| r["spec"]["limits"].as_array()).flatten().collect();
        let mut problems = Vec::new();
        for limit in limits {
            match limit["type"].as_str() {
                Some("Container") if pods => containers(request.object, limit, &mut problems),
                Some("Pod") if pods => whole_pod(request.object, limit, &mut problems),
                Some("PersistentVolumeClaim") if claims => claim(request.object, limit, &mut problems),
                _ => {}
            }
        }
        if problems.is_empty() {
            return Ok(());
        }
        let why = match problems.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Err(ApiError::forbidden(Some(request.call.served.resource()), request.object.name(), why))
    }
}

fn containers(pod: &mut Value, limit: &Value, problems: &mut Vec<String>) {
    for list in ["initContainers", "containers"] {
        let containers =
            pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            default_resources(container, limit);
            check(
                "Container",
                limit,
                &container["resources"]["requests"],
                &container["resources"]["limits"],
                problems,
            );
        }
    }
}

/// Limits come from `default`, requests from `defaultRequest` (which upstream itself defaults from `default`).
fn default_resources(container: &mut Value, limit: &Value) {
    for (field, defaults) in [("limits", &limit["default"]), ("requests", &limit["defaultRequest"])] {
        for (name, quantity) in defaults.as_object().into_iter().flatten() {
            object_at(container, "resources");
            let own = object_at(&mut container["resources"], field);
            if !own.contains_key(name) {
                own.insert(name.clone(), quantity.clone());
            }
        }
    }
}

fn whole_pod(pod: &Value, limit: &Value, problems: &mut Vec<String>) {
    let sum = |field: &str| {
        let mut total: Map<String, Value> = Map::new();
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            for (name, quantity) in container["resources"][field].as_object().into_iter().flatten() {
                let Some(quantity) = parse(quantity) else { continue };
                let so_far = total.get(name).and_then(parse).unwrap_or_default();
                total.insert(name.clone(), (so_far + quantity).to_string().into());
            }
        }
        // What is said for all of them together. Where nobody asks for anything, the limit is what is asked for.
        let whole = &pod["spec"]["resources"];
        for (name, quantity) in whole[field].as_object().into_iter().flatten() {
            total.insert(name.clone(), quantity.clone());
        }
        let limits = whole["limits"].as_object().filter(|_| field == "requests");
        for (name, quantity) in limits.into_iter().flatten() {
            total.entry(name.clone()).or_insert_with(|| quantity.clone());
        }
        Value::Object(total)
    };
    check("Pod", limit, &sum("requests"), &sum("limits"), problems);
}

fn claim(claim: &Value, limit: &Value, problems: &mut Vec<String>) {
    let requests = &claim["spec"]["resources"]["requests"];
    check("PersistentVolumeClaim", limit, requests, &Value::Null, problems);
}

fn check(ty: &str, limit: &Value, requests: &Value, limits: &Value, problems: &mut Vec<String>) {
    for (name, min) in limit["min"].as_object().into_iter().flatten() {
        let Some(bound) = parse(min) else { continue };
        match parse(&requests[name]) {
            None => {
                problems.push(format!("minimum {name} usage per {ty} is {bound}.  No request is specified"))
            }
            Some(given) if given < bound => {
                problems.push(format!("minimum {name} usage per {ty} is {bound}, but request is {given}"));
            }
            Some(_) => {}
        }
    }
    for (name, max) in limit["max"].as_object().into_iter().flatten() {
        let Some(bound) = parse(max) else { continue };
        let (request, own_limit) = (parse(&requests[name]), parse(&limits[name]));
        if limits.is_object() && own_limit.is_none() {
            problems.push(format!("maximum {name} usage per {ty} is {bound}.  No limit is specified"));
        }
        for (what, given) in [("limit", own_limit), ("request", request)] {
            if let Some(given) = given.filter(|given| *given > bound) {
                problems.push(format!("maximum {name} usage per {ty} is {bound}, but {what} is {given}"));
                break;
            }
        }
    }
    for (name, ratio) in limit["maxLimitRequestRatio"].as_object().into_iter().flatten() {
        let (Some(ratio), Some(request), Some(own_limit)) =
            (parse(ratio), parse(&requests[name]), parse(&limits[name]))
        else {
            continue;
        };
        let found = own_limit.milli() as f64 / (request.milli() as f64).max(1.0);
        if found > ratio.milli() as f64 / 1000.0 {
            problems.push(format!(
                "{name} max limit to request ratio per {ty} is {ratio}, but provided ratio is {found:.6}"
            ));
        }
    }
}

fn parse(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_for_the_whole_pod_counts() {
        let limit = json!({"type": "Pod", "min": {"cpu": "500m"}, "max": {"cpu": "2"}});
        let check = |resources: Value, expected: &[&str]| {
            let pod = json!({"spec": {"containers": [{"name": "a"}], "resources": resources}});
            let mut problems = Vec::new();
            whole_pod(&pod, &limit, &mut problems);
            assert_eq!(problems, expected);
        };
        check(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}), &[]);
        check(json!({"limits": {"cpu": "1"}}), &[]);
        let low = "minimum cpu usage per Pod is 500m, but request is 100m";
        check(json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}}), &[low]);
        check(json!({"limits": {"cpu": "4"}}), &["maximum cpu usage per Pod is 2, but limit is 4"]);
    }
}
