//! The quality of service class: who is evicted first when a node runs out of memory.

use std::collections::BTreeMap;

use serde_json::Value;

use super::containers;
use crate::Quantity;

/// Guaranteed where every container is limited to what it asks for, BestEffort where none asks for
/// anything, Burstable otherwise.
pub(crate) fn class(spec: &Value) -> &'static str {
    let pod_level = &spec["resources"];
    let holders: Vec<&Value> = if sets_something(pod_level) {
        vec![pod_level]
    } else {
        containers::lasting(spec).map(|c| &c["resources"]).collect()
    };
    let mut requests = BTreeMap::new();
    let mut limits = BTreeMap::new();
    let mut all_limited = true;
    for resources in holders {
        add(&mut requests, &resources["requests"]);
        all_limited &= add(&mut limits, &resources["limits"]) == 2;
    }
    match () {
        () if requests.is_empty() && limits.is_empty() => "BestEffort",
        () if all_limited && requests == limits => "Guaranteed",
        () => "Burstable",
    }
}

/// Adds CPU and memory and says how many of the two were there.
fn add(total: &mut BTreeMap<&'static str, Quantity>, list: &Value) -> usize {
    let mut found = 0;
    for name in ["cpu", "memory"] {
        let quantity = Quantity::from_json(&list[name]).unwrap_or_default();
        if quantity > Quantity::ZERO {
            *total.entry(name).or_default() += quantity;
            found += 1;
        }
    }
    found
}

fn sets_something(resources: &Value) -> bool {
    let filled = |field: &str| resources[field].as_object().is_some_and(|map| !map.is_empty());
    filled("requests") || filled("limits")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn check(containers: &[(Value, Value)], expected: &str) {
        let list: Vec<Value> = containers
            .iter()
            .map(|(requests, limits)| json!({"resources": {"requests": requests, "limits": limits}}))
            .collect();
        assert_eq!(super::class(&json!({ "containers": list })), expected, "{containers:?}");
    }

    #[test]
    fn classes() {
        let full = || json!({"cpu": "1", "memory": "1Gi"});
        check(&[(json!({}), json!({}))], "BestEffort");
        check(&[(full(), full())], "Guaranteed");
        check(&[(json!({"cpu": "1000m", "memory": "1024Mi"}), full())], "Guaranteed");
        check(&[(full(), full()), (json!({}), json!({}))], "Burstable");
        check(&[(json!({"cpu": "1"}), json!({}))], "Burstable");
        check(&[(json!({"cpu": "500m", "memory": "1Gi"}), full())], "Burstable");
        check(&[(json!({"cpu": "1"}), json!({"cpu": "1"}))], "Burstable");
        check(&[(json!({"nvidia.com/gpu": "1"}), json!({"nvidia.com/gpu": "1"}))], "BestEffort");
    }
}
