use serde_json::{Value, json};

use crate::check;

const V1: &str = "v1.horizontalpodautoscalers.autoscaling";
const V2: &str = "v2.horizontalpodautoscalers.autoscaling";

fn with(more: Value) -> Value {
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5,
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn cpu(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}})
}

#[test]
fn defaults() {
    let object = check::defaulted(V2, with(json!({})));
    assert_eq!(object["spec"]["minReplicas"], 1);
    assert_eq!(object["spec"]["metrics"], json!([cpu(80)]));
    assert!(object["spec"].get("behavior").is_none());

    let object =
        check::defaulted(V2, with(json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}})));
    assert_eq!(
        object["spec"]["behavior"],
        json!({
            "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max",
                "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
            "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15}]},
        })
    );
}

#[test]
fn validation() {
    #[track_caller]
    fn check(spec: Value, expected: &[&str]) {
        check::errors(V2, with(spec), expected);
    }
    check(json!({}), &[]);
    check(
        json!({"minReplicas": 0, "maxReplicas": -1}),
        &[
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.maxReplicas: Invalid value: -1: must be greater than 0",
            "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
        ],
    );
    check(
        json!({"scaleTargetRef": {}}),
        &["spec.scaleTargetRef.kind: Required value", "spec.scaleTargetRef.name: Required value"],
    );
    check(
        json!({"metrics": [{"type": "Cpu"}, {"type": "Pods"}, {}]}),
        &[
            "spec.metrics[0].type: Unsupported value: \"Cpu\"",
            "spec.metrics[1].pods: Required value: must populate information for the given metric source",
            "spec.metrics[2].type: Required value: must specify a metric source type",
        ],
    );
    check(
        json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "X"}}, "pods": {}}]}),
        &[
            "spec.metrics[0].resource.target.type: Invalid value: \"X\": must be either Utilization",
            "spec.metrics[0].resource.target.averageUtilization: Required value: must set either",
            "spec.metrics[0].pods: Forbidden: must populate the given metric source only",
        ],
    );
    check(
        json!({"behavior": {"scaleUp": {"selectPolicy": "Any", "stabilizationWindowSeconds": 4000,
            "policies": [{"type": "Pods", "value": 0, "periodSeconds": 2000}]}}}),
        &[
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600",
            "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"Any\"",
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 2000: must be less than or equal to 1800",
        ],
    );
    check::errors(
        V1,
        with(json!({"maxReplicas": 0})),
        &["spec.maxReplicas: Invalid value: 0: must be greater than 0", "spec.maxReplicas"],
    );
}

#[test]
fn columns() {
    let memory = json!({"type": "Resource", "resource": {"name": "memory",
        "target": {"type": "AverageValue", "averageValue": "100Mi"}}});
    let mut object = with(json!({"minReplicas": 2, "metrics": [cpu(50)]}));
    object["status"] = json!({"currentReplicas": 3, "currentMetrics": [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 5}}}]});
    let row = |object: &Value, targets: &str| {
        check::row(V2, object.clone(), &["web", "Deployment/web", targets, "2", "5", "3", "<unknown>"]);
    };
    row(&object, "cpu: 5%/50%");
    object["spec"]["metrics"] = json!([memory, cpu(50), cpu(60)]);
    row(&object, "memory: <unknown>/100Mi, cpu: <unknown>/50% + 1 more...");
    let external = json!({"type": "External", "external": {"metric": {"name": "q"},
        "target": {"type": "AverageValue", "averageValue": "3"}}});
    object["spec"]["metrics"] = json!([external]);
    row(&object, "<unknown>/3 (avg)");
    object["spec"]["metrics"] = json!([]);
    row(&object, "<none>");

    let mut v1 = with(json!({"minReplicas": 2, "targetCPUUtilizationPercentage": 50}));
    v1["status"] = json!({"currentReplicas": 3, "currentCPUUtilizationPercentage": 7});
    check::row(V1, v1, &["web", "Deployment/web", "cpu: 7%/50%", "2", "5", "3", "<unknown>"]);
}

#[test]
fn v1_to_v2_and_back() {
    let strategy = check::find(V1).strategy;
    let mut object = with(json!({"targetCPUUtilizationPercentage": 50}));
    strategy.to_stored(&mut object);
    assert_eq!(object["spec"]["metrics"], json!([cpu(50)]));
    assert!(object["spec"].get("targetCPUUtilizationPercentage").is_none());
    strategy.from_stored(&mut object);
    assert_eq!(object["spec"], with(json!({"targetCPUUtilizationPercentage": 50}))["spec"]);

    let mut object = with(json!({}));
    strategy.to_stored(&mut object);
    assert_eq!(object["spec"]["metrics"], json!([cpu(80)]));
}

#[test]
fn v2_survives_a_v1_client() {
    let strategy = check::find(V1).strategy;
    let mut object = with(json!({
        "minReplicas": 1,
        "metrics": [
            cpu(50),
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
            {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                "target": {"averageUtilization": 10, "type": "Utilization"}}},
            {"type": "Pods", "pods": {"metric": {"name": "p"}, "target": {"averageValue": "1", "type": "AverageValue"}}},
            {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"},
                "metric": {"name": "o", "selector": {"matchLabels": {"a": "b"}}}, "target": {"value": "1", "type": "Value"}}},
            {"type": "External", "external": {"metric": {"name": "e"}, "target": {"averageValue": "1", "type": "AverageValue"}}},
        ],
        "behavior": {"scaleDown": {"selectPolicy": "Disabled"}},
    }));
    object["apiVersion"] = json!("autoscaling/v2");
    object["status"] = json!({
        "currentReplicas": 1,
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 5, "averageValue": "7m"}}}],
        "conditions": [{"type": "AbleToScale", "status": "True"}],
    });
    let before = object.clone();
    strategy.from_stored(&mut object);
    assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 50);
    assert_eq!(object["status"]["currentCPUUtilizationPercentage"], 5);
    let metrics: Value = serde_json::from_str(
        object["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"].as_str().unwrap(),
    )
    .unwrap();
    assert_eq!(
        metrics[0],
        json!({"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}})
    );
    strategy.to_stored(&mut object);
    assert_eq!(object, before);
}
