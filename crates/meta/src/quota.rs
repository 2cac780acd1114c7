//! What an object counts for in a ResourceQuota. Pure: admission and the quota controller share it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Quantity;

/// Resource name of a quota (`pods`, `requests.cpu`, `count/jobs.batch`) to amount.
pub type Usage = BTreeMap<String, Quantity>;

/// What one object of a resource uses.
pub fn usage_of(group: &str, plural: &str, object: &Value) -> Usage {
    let mut usage = Usage::new();
    let one = || Quantity::from_milli(1000);
    let counted = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    usage.insert(format!("count/{counted}"), one());
    if !group.is_empty() {
        return usage;
    }
    match plural {
        "pods" => {
            // A pod that has ended holds nothing any more.
            if matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
                return usage;
            }
            usage.insert("pods".to_owned(), one());
            pod_resources(object, &mut usage);
        }
        "services" => {
            usage.insert("services".to_owned(), one());
            let ports = object["spec"]["ports"].as_array().map_or(0, Vec::len);
            let ports = Quantity::from_milli(i64::try_from(ports).unwrap_or(0).saturating_mul(1000));
            match object["spec"]["type"].as_str() {
                Some("NodePort") => drop(usage.insert("services.nodeports".to_owned(), ports)),
                Some("LoadBalancer") => {
                    usage.insert("services.nodeports".to_owned(), ports);
                    usage.insert("services.loadbalancers".to_owned(), one());
                }
                _ => {}
            }
        }
        "persistentvolumeclaims" => claim_resources(object, &mut usage),
        "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas" => {
            usage.insert(plural.to_owned(), one());
        }
        _ => {}
    }
    usage
}

/// What a quota limits that a pod's containers must say, and those that do not: `requests.cpu for: a,b`.
pub fn unspecified(hard: &[&str], pod: &Value) -> Vec<String> {
    let lists = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array());
    let containers: Vec<&Value> = lists.into_iter().flatten().flatten().collect();
    let mut missing = Vec::new();
    for &name in hard {
        let (field, resource) = match name.split_once('.') {
            None => ("requests", name),
            Some((field @ ("requests" | "limits"), resource)) => (field, resource),
            Some(_) => continue,
        };
        if !matches!(resource, "cpu" | "memory") || !of_whole(pod, field, resource, false).is_null() {
            continue;
        }
        let without = containers.iter().filter(|container| container["resources"][field][resource].is_null());
        let names: Vec<&str> = without.filter_map(|container| container["name"].as_str()).collect();
        if !names.is_empty() {
            missing.push(format!("{name} for: {}", names.join(",")));
        }
    }
    missing
}

/// What `after` uses more than `before`; empty if nothing grew.
pub fn growth(before: &Usage, after: &Usage) -> Usage {
    let more = after.iter().filter_map(|(name, amount)| {
        let had = before.get(name).cloned().unwrap_or_default();
        (*amount > had).then(|| (name.clone(), *amount - had))
    });
    more.collect()
}

/// Whether the quota's scopes select this object. Only pods have scopes.
pub fn applies(quota: &Value, object: &Value) -> bool {
    let plain = quota["spec"]["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut scopes: Vec<(&str, &str, &Value)> = plain.map(|scope| (scope, "Exists", &Value::Null)).collect();
    for expression in quota["spec"]["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten() {
        let text = |field: &str| expression[field].as_str().unwrap_or_default();
        scopes.push((text("scopeName"), text("operator"), &expression["values"]));
    }
    if scopes.is_empty() {
        return true;
    }
    object["kind"] == "Pod"
        && scopes.iter().all(|(scope, operator, values)| in_scope(scope, operator, values, object))
}

fn in_scope(scope: &str, operator: &str, values: &Value, pod: &Value) -> bool {
    let terminating = pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    let best_effort = pod["status"]["qosClass"] == "BestEffort";
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        "CrossNamespacePodAffinity" => has_cross_namespace_affinity(pod),
        "PriorityClass" => {
            let class = &pod["spec"]["priorityClassName"];
            let listed = values.as_array().is_some_and(|values| values.contains(class));
            match operator {
                "In" => listed,
                "NotIn" => !listed,
                "DoesNotExist" => !class.is_string(),
                _ => class.is_string(),
            }
        }
        _ => false,
    }
}

fn has_cross_namespace_affinity(pod: &Value) -> bool {
    let affinity = &pod["spec"]["affinity"];
    let kinds = [&affinity["podAffinity"], &affinity["podAntiAffinity"]];
    let crosses = |term: &Value| {
        !term["namespaceSelector"].is_null()
            || term["namespaces"].as_array().is_some_and(|list| !list.is_empty())
    };
    kinds.iter().any(|kind| {
        let required = kind["requiredDuringSchedulingIgnoredDuringExecution"].as_array();
        let preferred = kind["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
        required.into_iter().flatten().any(crosses)
            || preferred.into_iter().flatten().any(|weighted| crosses(&weighted["podAffinityTerm"]))
    })
}

/// What a pod says for all of its containers together. Where it says no request and none of them does, it asks for what it is
/// limited to: the API server writes that into pods, but did not always.
fn of_whole<'a>(pod: &'a Value, field: &str, resource: &str, containers_say: bool) -> &'a Value {
    let own = &pod["spec"]["resources"];
    match &own[field][resource] {
        Value::Null if field == "requests" && !containers_say => &own["limits"][resource],
        said => said,
    }
}

/// The sum over the containers that run together, or the largest init container beside the sidecars before
/// it if that is more; or what is said for all of them together; plus the overhead of the pod's runtime.
fn pod_resources(pod: &Value, usage: &mut Usage) {
    let overhead = amounts(&pod["spec"]["overhead"]);
    for field in ["requests", "limits"] {
        let of = |container: &Value| amounts(&container["resources"][field]);
        let mut total = Usage::new();
        let mut largest = Usage::new();
        for container in pod["spec"]["initContainers"].as_array().into_iter().flatten() {
            if container["restartPolicy"] == "Always" {
                add(&mut total, of(container));
                continue;
            }
            for (name, amount) in of(container) {
                let beside = total.get(&name).copied().unwrap_or_default();
                let most = largest.entry(name).or_default();
                *most = (*most).max(beside + amount);
            }
        }
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            add(&mut total, of(container));
        }
        for (name, amount) in largest {
            let sum = total.entry(name).or_default();
            *sum = (*sum).max(amount);
        }
        for resource in ["cpu", "memory"] {
            let containers_say = total.contains_key(resource);
            if let Ok(whole) = Quantity::from_json(of_whole(pod, field, resource, containers_say)) {
                total.insert(resource.to_owned(), whole);
            }
        }
        // What has no limit has none with the overhead either.
        let known = |name: &String| field == "requests" || total.contains_key(name);
        let more: Vec<_> = overhead.iter().filter(|(name, _)| known(name)).cloned().collect();
        add(&mut total, more);
        for (name, amount) in total {
            if field == "requests" && matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
                usage.insert(name.clone(), amount);
            }
            usage.insert(format!("{field}.{name}"), amount);
        }
    }
}

fn add(total: &mut Usage, amounts: Vec<(String, Quantity)>) {
    for (name, amount) in amounts {
        let sum = total.remove(&name).unwrap_or_default() + amount;
        total.insert(name, sum);
    }
}

fn claim_resources(claim: &Value, usage: &mut Usage) {
    let one = || Quantity::from_milli(1000);
    usage.insert("persistentvolumeclaims".to_owned(), one());
    let storage =
        amounts(&claim["spec"]["resources"]["requests"]).into_iter().find(|(name, _)| name == "storage");
    let storage = storage.map(|(_, amount)| amount).unwrap_or_default();
    if let Some(class) = claim["spec"]["storageClassName"].as_str().filter(|class| !class.is_empty()) {
        usage.insert(format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), one());
        usage.insert(format!("{class}.storageclass.storage.k8s.io/requests.storage"), storage);
    }
    usage.insert("requests.storage".to_owned(), storage);
}

fn amounts(list: &Value) -> Vec<(String, Quantity)> {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), Quantity::from_json(amount).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_counts_its_containers_and_its_largest_init_container() {
        let pod = json!({"kind": "Pod", "spec": {
            "containers": [
                {"resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1"}}},
                {"resources": {"requests": {"cpu": "200m"}}},
            ],
            "initContainers": [{"resources": {"requests": {"cpu": "2"}}}],
        }});
        let usage = usage_of("", "pods", &pod);
        let text = |name: &str| usage.get(name).map(ToString::to_string);
        assert_eq!(text("pods").as_deref(), Some("1"));
        assert_eq!(text("requests.cpu").as_deref(), Some("2"));
        assert_eq!(text("cpu").as_deref(), Some("2"));
        assert_eq!(text("requests.memory").as_deref(), Some("1Gi"));
        assert_eq!(text("limits.cpu").as_deref(), Some("1"));
        assert_eq!(text("count/pods").as_deref(), Some("1"));
    }

    #[test]
    fn sidecars_and_overhead_count() {
        let check = |spec: Value, name: &str, want: Option<&str>| {
            let usage = usage_of("", "pods", &json!({"kind": "Pod", "spec": spec}));
            assert_eq!(usage.get(name).map(ToString::to_string).as_deref(), want, "{name} of {spec}");
        };
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("300m");
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({"containers": [container("1")], "initContainers": [sidecar, container("500m")],
            "overhead": {"cpu": "50m", "memory": "1Mi"}});
        check(spec.clone(), "requests.cpu", Some("1350m"));
        check(spec.clone(), "requests.memory", Some("1Mi"));
        check(spec, "limits.cpu", None);
        let spec = json!({"containers": [container("1")], "initContainers": [sidecar, container("2")]});
        check(spec, "requests.cpu", Some("2300m"));
    }

    #[test]
    fn what_is_said_for_the_whole_pod_counts() {
        let check = |resources: Value, expected: [Option<&str>; 3], missing: &[&str]| {
            let containers = json!([{"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}, {"name": "b"}]);
            let spec = json!({"containers": containers, "resources": resources, "overhead": {"cpu": "50m"}});
            let pod = json!({"kind": "Pod", "spec": spec});
            let usage = usage_of("", "pods", &pod);
            let found = ["requests.cpu", "limits.cpu", "requests.memory"]
                .map(|name| usage.get(name).map(ToString::to_string));
            assert_eq!(found.each_ref().map(Option::as_deref), expected, "{spec}");
            assert_eq!(unspecified(&["requests.cpu", "limits.cpu"], &pod), missing, "{spec}");
        };
        let both = ["requests.cpu for: b", "limits.cpu for: b"];
        check(Value::Null, [Some("1050m"), Some("2050m"), None], &both);
        let whole = json!({"requests": {"cpu": "3"}, "limits": {"cpu": "4", "memory": "1Gi"}});
        check(whole, [Some("3050m"), Some("4050m"), Some("1Gi")], &[]);
        check(json!({"limits": {"cpu": "4"}}), [Some("1050m"), Some("4050m"), None], &[]);
        check(json!({"limits": {"memory": "1Gi"}}), [Some("1050m"), Some("2050m"), Some("1Gi")], &both);
        check(json!({"requests": {"cpu": "3"}}), [Some("3050m"), Some("2050m"), None], &both[1..]);
    }

    #[test]
    fn scopes_select_pods() {
        let quota = json!({"spec": {"scopes": ["BestEffort"]}});
        assert!(applies(&quota, &json!({"kind": "Pod", "status": {"qosClass": "BestEffort"}})));
        assert!(!applies(&quota, &json!({"kind": "Pod", "status": {"qosClass": "Burstable"}})));
        assert!(!applies(&quota, &json!({"kind": "Service"})));
        assert!(applies(&json!({"spec": {}}), &json!({"kind": "Service"})));
    }

    #[test]
    fn only_what_grew_is_charged() {
        let usage = |cpu: &str| Usage::from([("cpu".to_owned(), cpu.parse().unwrap())]);
        assert!(growth(&usage("2"), &usage("1")).is_empty());
        assert_eq!(growth(&usage("1"), &usage("3")), usage("2"));
    }
}
