//! The FlowSchemas and PriorityLevelConfigurations of a fresh cluster: the names and shares that people know from
//! Kubernetes. Users change or delete them as they like, but for `exempt` and `catch-all`, which come back.

use serde_json::{Value, json};

const GROUP: &str = "flowcontrol.apiserver.k8s.io/v1";

/// What no cluster can do without.
pub fn mandatory() -> impl Iterator<Item = Value> {
    levels().into_iter().chain(schemas()).filter(is_mandatory)
}

pub fn is_mandatory(object: &Value) -> bool {
    matches!(object["metadata"]["name"].as_str(), Some("exempt" | "catch-all"))
}

pub fn levels() -> Vec<Value> {
    // Name, shares, percent that is lent, queues, hand.
    let queued = [
        ("system", 30, 33, 64, 6),
        ("node-high", 40, 25, 64, 6),
        ("leader-election", 10, 0, 16, 4),
        ("workload-high", 40, 50, 128, 6),
        ("workload-low", 100, 90, 128, 6),
        ("global-default", 20, 50, 128, 6),
    ];
    let queued = queued.map(|(name, shares, lent, queues, hand)| {
        let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": 50});
        level(name, limited(shares, lent, json!({"type": "Queue", "queuing": queuing})))
    });
    let exempt = json!({"nominalConcurrencyShares": 0, "lendablePercent": 0});
    let mandatory = [
        level("exempt", json!({"type": "Exempt", "exempt": exempt})),
        level("catch-all", limited(5, 0, json!({"type": "Reject"}))),
    ];
    mandatory.into_iter().chain(queued).collect()
}

pub fn schemas() -> Vec<Value> {
    let everybody = [group("system:authenticated"), group("system:unauthenticated")];
    let anything = || json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}]);
    let any_path = || json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    let all = |subjects: Value| json!({"subjects": subjects, "resourceRules": anything(), "nonResourceRules": any_path()});
    let probes = json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]);
    let leases = |namespaces: &[&str]| {
        json!([{"verbs": ["get", "create", "update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "namespaces": namespaces}])
    };
    let of_nodes = json!([
        {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"], "namespaces": ["*"], "clusterScope": true},
        {"verbs": ["*"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]},
    ]);
    let in_kube_system =
        json!([{"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}]);
    let nodes = json!([group("system:nodes")]);
    vec![
        schema("exempt", "exempt", 1, None, all(json!([group("system:masters")]))),
        schema("probes", "exempt", 2, None, json!({"subjects": everybody, "nonResourceRules": probes})),
        schema(
            "workload-leader-election",
            "leader-election",
            200,
            Some("ByUser"),
            json!({"subjects": in_kube_system, "resourceRules": leases(&["*"])}),
        ),
        schema(
            "system-node-high",
            "node-high",
            400,
            Some("ByUser"),
            json!({"subjects": nodes, "resourceRules": of_nodes}),
        ),
        schema("system-nodes", "system", 500, Some("ByUser"), all(nodes)),
        schema(
            "kube-system-service-accounts",
            "workload-high",
            900,
            Some("ByNamespace"),
            all(in_kube_system),
        ),
        schema(
            "service-accounts",
            "workload-low",
            9000,
            Some("ByUser"),
            all(json!([group("system:serviceaccounts")])),
        ),
        schema("global-default", "global-default", 9900, Some("ByUser"), all(json!(everybody))),
        schema("catch-all", "catch-all", 10000, Some("ByUser"), all(json!(everybody))),
    ]
}

fn level(name: &str, spec: Value) -> Value {
    json!({"apiVersion": GROUP, "kind": "PriorityLevelConfiguration", "metadata": {"name": name}, "spec": spec})
}

fn limited(shares: i64, lent: i64, response: Value) -> Value {
    json!({"type": "Limited",
        "limited": {"nominalConcurrencyShares": shares, "lendablePercent": lent, "limitResponse": response}})
}

fn group(name: &str) -> Value {
    json!({"kind": "Group", "group": {"name": name}})
}

fn schema(name: &str, level: &str, precedence: i64, by: Option<&str>, rule: Value) -> Value {
    let mut spec = json!({"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]});
    if let Some(by) = by {
        spec["distinguisherMethod"] = json!({"type": by});
    }
    json!({"apiVersion": GROUP, "kind": "FlowSchema", "metadata": {"name": name}, "spec": spec})
}
