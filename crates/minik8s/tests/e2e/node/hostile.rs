//! Objects that the API accepts and that typed readers stumble over: one of every kind that somebody watches. Nobody
//! goes blind over them, neither at once nor after a new start.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::space::{Space, idle, is_ready, shell};
use crate::harness::cluster::{Cluster, NODE};

/// More digits than a typed reader has room for.
const ODD_TIME: &str = "2026-01-01T00:00:00.0000000000001Z";

pub async fn hostile_objects(cluster: Arc<Cluster>) {
    let space = Space::new(cluster.clone(), "hostile").await;
    let mut stored = Vec::new();
    for (path, object, status) in objects(&space.name) {
        if store(&space, &path, object, status).await {
            stored.push(path);
        }
    }
    // What is odd about these is a condition without its time, which upstream accepts.
    for kind in ["services", "poddisruptionbudgets", "dns"] {
        assert!(stored.iter().any(|path| path.ends_with(kind)), "no odd object of {kind}: {stored:?}");
    }
    println!("odd objects of {} kinds: {stored:?}", stored.len());
    all_else_works(&space, "before").await;
    cluster.crash_server();
    cluster.restart_server().await;
    all_else_works(&space, "after").await;
    reported(&space).await;
    // And they can be got rid of.
    let own = space.path("services", "odd");
    space.send(Method::DELETE, &own, Value::Null).await.unwrap();
    space.eventually("the odd Service is gone", async || space.get(&own).await.is_none()).await;
}

/// Collection, object, and what its status is to be: whatever of it the API accepts.
fn objects(namespace: &str) -> Vec<(String, Value, Value)> {
    let meta = |labels: Value| {
        json!({"name": "odd", "labels": labels, "managedFields": [{
            "manager": "odd", "operation": "Update", "apiVersion": "v1", "time": ODD_TIME, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {}},
        }]})
    };
    let template = json!({"metadata": {"labels": {"a": "odd"}}, "spec": {
        "nodeSelector": {"no": "where"}, "restartPolicy": "Always", "containers": [{"name": "main", "image": "none"}]}});
    let once = {
        let mut once = template.clone();
        once["spec"]["restartPolicy"] = "Never".into();
        once
    };
    let workload = json!({"replicas": 0, "selector": {"matchLabels": {"a": "odd"}}, "template": template});
    let condition = json!({"conditions": [{"type": "A", "status": "True"}]});
    let timed = json!({"conditions": [{"type": "A", "status": "True", "lastTransitionTime": ODD_TIME}]});
    let core = format!("/api/v1/namespaces/{namespace}");
    let group = |group: &str| format!("/apis/{group}/namespaces/{namespace}");
    let object = |path: String, body: Value, status: &Value| {
        let mut body = body;
        body["metadata"] = meta(json!({"kubernetes.io/service-name": "odd"}));
        (path, body, status.clone())
    };
    let pod = json!({"spec": template["spec"]});
    vec![
        object(format!("{core}/services"), json!({"spec": {"ports": [{"port": 80}]}}), &condition),
        object(format!("{core}/pods"), pod, &json!({"startTime": ODD_TIME})),
        object(format!("{core}/configmaps"), json!({"data": {"a": "b"}}), &Value::Null),
        object(format!("{core}/secrets"), json!({"stringData": {"a": "b"}}), &Value::Null),
        object(format!("{core}/serviceaccounts"), json!({}), &Value::Null),
        object(format!("{core}/endpoints"), json!({"subsets": []}), &Value::Null),
        object(
            format!("{core}/resourcequotas"),
            json!({"spec": {"hard": {"count/jobs.batch": "100"}}}),
            &Value::Null,
        ),
        object(
            format!("{core}/persistentvolumeclaims"),
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none",
                "resources": {"requests": {"storage": "1Gi"}}}}),
            &timed,
        ),
        object(
            format!("{core}/replicationcontrollers"),
            json!({"spec": {"replicas": 0, "selector": {"a": "odd"}, "template": template}}),
            &timed,
        ),
        object("/api/v1/nodes".to_owned(), json!({"spec": {"unschedulable": true}}), &timed),
        object("/api/v1/namespaces".to_owned(), json!({}), &timed),
        object(format!("{}/deployments", group("apps/v1")), json!({"spec": workload}), &timed),
        object(format!("{}/replicasets", group("apps/v1")), json!({"spec": workload}), &timed),
        object(format!("{}/statefulsets", group("apps/v1")), json!({"spec": workload}), &timed),
        object(
            format!("{}/daemonsets", group("apps/v1")),
            json!({"spec": {"selector": {"matchLabels": {"a": "odd"}}, "template": template}}),
            &timed,
        ),
        object(
            format!("{}/controllerrevisions", group("apps/v1")),
            json!({"revision": 1, "data": {"a": 1}}),
            &Value::Null,
        ),
        object(
            format!("{}/jobs", group("batch/v1")),
            json!({"spec": {"suspend": true, "template": once}}),
            &json!({"startTime": ODD_TIME}),
        ),
        object(
            format!("{}/cronjobs", group("batch/v1")),
            json!({"spec": {"suspend": true, "schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}}}),
            &json!({"lastScheduleTime": ODD_TIME}),
        ),
        object(
            format!("{}/endpointslices", group("discovery.k8s.io/v1")),
            json!({"addressType": "IPv4", "endpoints": [], "ports": []}),
            &Value::Null,
        ),
        object(
            format!("{}/poddisruptionbudgets", group("policy/v1")),
            json!({"spec": {"minAvailable": 0, "selector": {"matchLabels": {"a": "odd"}}}}),
            &condition,
        ),
        object(
            format!("{}/horizontalpodautoscalers", group("autoscaling/v2")),
            json!({"spec": {"maxReplicas": 1, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "no"}}}),
            &timed,
        ),
        object(
            format!("{}/ingresses", group("networking.k8s.io/v1")),
            json!({"spec": {"defaultBackend": {"service": {"name": "odd", "port": {"number": 80}}}}}),
            &Value::Null,
        ),
        object(
            "/apis/networking.k8s.io/v1/ingressclasses".to_owned(),
            json!({"spec": {"controller": "example.org/odd"}}),
            &Value::Null,
        ),
        object(
            format!("{}/dns", group("minik8s.io/v1")),
            json!({"spec": {"rules": [{"host": "odd.test", "paths": [{"path": "/", "backend":
                {"service": {"name": "odd", "port": 80}}}]}]}}),
            &condition,
        ),
        object(
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases".to_owned(),
            json!({"spec": {"holderIdentity": "odd", "renewTime": ODD_TIME}}),
            &Value::Null,
        ),
    ]
}

/// Whether something odd of it was accepted.
async fn store(space: &Space, collection: &str, object: Value, status: Value) -> bool {
    let mut accepted = true;
    if space.send(Method::POST, collection, object.clone()).await.is_err() {
        accepted = false;
        let mut plain = object;
        plain["metadata"].as_object_mut().unwrap().remove("managedFields");
        plain["spec"].as_object_mut().map(|spec| spec.remove("renewTime"));
        let made = space.send(Method::POST, collection, plain).await;
        made.unwrap_or_else(|error| panic!("{collection}: {error}"));
    }
    if status.is_null() {
        return accepted;
    }
    let path = format!("{collection}/odd/status");
    accepted | space.send(Method::PATCH, &path, json!({"status": status})).await.is_ok()
}

/// Controllers, scheduler, kubelet, Services, names, routes: for objects that are made now.
async fn all_else_works(space: &Space, when: &str) {
    let web = format!("web-{when}");
    let serve = "mkdir /w; echo hello >/w/index.html; exec httpd -f -p 8080 -h /w";
    let deployment = format!("/apis/apps/v1/namespaces/{}/deployments", space.name);
    let labels = json!({"app": web});
    let mut container = shell("main", serve);
    container["image"] = minik8s_kubelet::image::BUSYBOX.into();
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": {
        "metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}});
    let body = json!({"metadata": {"name": web}, "spec": spec});
    space.send(Method::POST, &deployment, body).await.unwrap();
    let ports = json!([{"port": 80, "targetPort": 8080}]);
    space
        .create("services", json!({"metadata": {"name": web}, "spec": {"selector": labels, "ports": ports}}))
        .await;
    let host = format!("{when}.test");
    let rule =
        json!({"host": host, "paths": [{"path": "/", "backend": {"service": {"name": web, "port": 80}}}]});
    let dns = format!("/apis/minik8s.io/v1/namespaces/{}/dns", space.name);
    let body = json!({"metadata": {"name": web}, "spec": {"rules": [rule]}});
    space.send(Method::POST, &dns, body).await.unwrap();
    let client = format!("client-{when}");
    space.pod(&client, idle()).await;
    space.ready(&client).await;
    for url in [format!("http://{web}"), format!("http://{host}:{}", space.cluster.http_port())] {
        space
            .eventually(&format!("{url} {when}"), async || {
                let ask = ["exec", &client, "--", "timeout", "5", "wget", "-qO-", &url];
                space.try_kubectl(&ask).await.out == "hello\n"
            })
            .await;
    }
    let node = space.get(&format!("/api/v1/nodes/{NODE}")).await.unwrap();
    assert!(is_ready(&node), "{node:#}");
}

/// Users see what was left out, on the object itself.
async fn reported(space: &Space) {
    space
        .eventually("an event of the odd Service", async || {
            let events = space.get(&space.path("events", "")).await.unwrap();
            events["items"].as_array().unwrap().iter().any(|event| {
                let message = event["message"].as_str().unwrap_or_default();
                event["reason"] == "UnreadableField"
                    && event["involvedObject"]["kind"] == "Service"
                    && message.contains("status.conditions[0]")
            })
        })
        .await;
}
