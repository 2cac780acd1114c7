//! Kinds with two API versions over one stored form.

use serde_json::json;

use crate::cluster::*;

#[tokio::test]
async fn autoscalers_in_both_versions() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let (v1, v2) = (
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
    );
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let old = json!({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5, "targetCPUUtilizationPercentage": 60}});
    let made = admin.post(v1, old).await.ok();
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    let new = admin.get(&format!("{v2}/a")).await.ok();
    assert_eq!(new["apiVersion"], "autoscaling/v2");
    assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60);
    assert_eq!(version(&new), version(&made));
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    let cpu = new["spec"]["metrics"][0].clone();
    let patched =
        admin.patch(MERGE, &format!("{v2}/a"), json!({"spec": {"metrics": [cpu, memory]}})).await.ok();
    let mut watch = admin.watch(&format!("{v1}?watch=1&resourceVersion={}", version(&patched))).await;
    // A client that knows only the old version does not lose what it cannot see.
    let raised = admin.patch(MERGE, &format!("{v1}/a"), json!({"spec": {"maxReplicas": 9}})).await.ok();
    assert_eq!(raised["spec"]["targetCPUUtilizationPercentage"], 60);
    let event = watch.expect("MODIFIED").await;
    assert_eq!((&event["apiVersion"], &event["spec"]["maxReplicas"]), (&json!("autoscaling/v1"), &json!(9)));
    let new = admin.get(&format!("{v2}/a")).await.ok();
    assert_eq!(new["spec"]["maxReplicas"], 9);
    let kept = new["spec"]["metrics"].as_array().unwrap().iter().any(|m| m["resource"]["name"] == "memory");
    assert!(kept, "{}", new["spec"]["metrics"]);
    assert_eq!(admin.get(v1).await.ok()["items"][0]["apiVersion"], "autoscaling/v1");
    assert_eq!(admin.get(v2).await.ok()["items"][0]["apiVersion"], "autoscaling/v2");
    admin.delete(&format!("{v1}/a")).await.ok();
    admin.get(&format!("{v2}/a")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn events_in_both_groups() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let (core, group) =
        ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
    let old = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Started", "message": "it runs", "type": "Normal", "count": 3,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00Z",
        "source": {"component": "kubelet", "host": "n1"},
    });
    admin.post(core, old).await.ok();
    let seen = admin.get(&format!("{group}/e")).await.ok();
    assert_eq!((&seen["regarding"]["name"], &seen["note"]), (&json!("p"), &json!("it runs")));
    assert_eq!(
        (&seen["deprecatedCount"], &seen["deprecatedSource"]["component"]),
        (&json!(3), &json!("kubelet"))
    );
    let new = json!({
        "metadata": {"name": "f"}, "eventTime": "2026-01-01T00:00:00.123456Z", "reportingController": "example.com/c",
        "reportingInstance": "c-1", "action": "Binding", "reason": "Scheduled", "type": "Normal", "note": "bound",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    admin.post(group, new).await.ok();
    let seen = admin.get(&format!("{core}/f")).await.ok();
    assert_eq!((&seen["involvedObject"]["name"], &seen["message"]), (&json!("p"), &json!("bound")));
    assert_eq!(seen["reportingComponent"], "example.com/c");
    let both =
        admin.get(&format!("{core}?fieldSelector=involvedObject.name%3Dp,reason%3DScheduled")).await.ok();
    assert_eq!(names(&both), ["f"]);
    let both = admin.get(&format!("{group}?fieldSelector=regarding.name%3Dp,reason%3DStarted")).await.ok();
    assert_eq!(names(&both), ["e"]);
    let counted = admin.patch(MERGE, &format!("{core}/e"), json!({"count": 4})).await.ok();
    assert_eq!(counted["count"], 4);
    assert_eq!(admin.get(&format!("{group}/e")).await.ok()["deprecatedCount"], 4);
}
