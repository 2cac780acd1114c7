//! HorizontalPodAutoscalers of everything that has a scale. Nothing is measured here: what is shown holds without it.

use http::{Method, Request};
use serde_json::{Value, json};

use super::cluster::{Cluster, eventually, template};

async fn send(cluster: &Cluster, method: Method, path: &str, body: &Value) -> Result<Value, String> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    cluster.client.request(request.body(body).unwrap()).await.map_err(|error| error.to_string())
}

/// A kind of the test's own, with a scale.
fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    }});
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "choirs.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "choirs", "singular": "choir", "kind": "Choir"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": scale}}]},
    })
}

fn autoscaler(version: &str, kind: &str) -> Value {
    json!({
        "metadata": {"name": kind.to_lowercase()},
        "spec": {"scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "it"},
            "minReplicas": 2, "maxReplicas": 5},
    })
}

/// Too few replicas are mended at once, whatever has them.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_has_a_scale_is_scaled() {
    let cluster = Cluster::start().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    send(&cluster, Method::POST, definitions, &definition()).await.unwrap();
    for (version, kind, plural) in [
        ("apps/v1", "Deployment", "deployments"),
        ("apps/v1", "ReplicaSet", "replicasets"),
        ("apps/v1", "StatefulSet", "statefulsets"),
        ("v1", "ReplicationController", "replicationcontrollers"),
        ("example.com/v1", "Choir", "choirs"),
    ] {
        let labels = json!({"app": kind});
        let spec = match kind {
            "Choir" => json!({"replicas": 1}),
            "ReplicationController" => {
                json!({"replicas": 1, "selector": labels, "template": template(kind, "v1")})
            }
            _ => {
                json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template(kind, "v1")})
            }
        };
        let root = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
        let collection = format!("{root}/namespaces/default/{plural}");
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "it"}, "spec": spec});
        let mut made =
            eventually("created", async || send(&cluster, Method::POST, &collection, &object).await).await;
        if kind == "Choir" {
            // Whose pods they are, its own controller would tell.
            made["status"] = json!({"replicas": 1, "selector": "app=choir"});
            send(&cluster, Method::PUT, &format!("{collection}/it/status"), &made).await.unwrap();
        }
        let autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
        send(&cluster, Method::POST, autoscalers, &autoscaler(version, kind)).await.unwrap();
        eventually(&format!("two of {kind}"), async || {
            let scale = send(&cluster, Method::GET, &format!("{collection}/it/scale"), &Value::Null).await?;
            if scale["spec"]["replicas"] == 2 { Ok(()) } else { Err(scale.to_string()) }
        })
        .await;
    }
}
