//! Namespaces, above all their end.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::cluster::{Cluster, eventually, template};

fn api(cluster: &Cluster) -> Api<Namespace> {
    Api::all(cluster.client.clone())
}

async fn until_gone(cluster: &Cluster, name: &str) {
    let api = api(cluster);
    eventually("the namespace is gone", async || match api.get_opt(name).await.unwrap() {
        None => Ok(()),
        Some(namespace) => Err(json!(namespace.status).to_string()),
    })
    .await;
}

async fn fill(cluster: &Cluster) {
    cluster.make_namespace("town").await;
    let mut pod = template("town", "x");
    pod["metadata"]["name"] = json!("p");
    cluster.create_in::<Pod>("town", pod).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    cluster.create_in::<Service>("town", service).await;
    cluster.create_in::<ConfigMap>("town", json!({"metadata": {"name": "c"}})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_removes_what_is_inside() {
    let cluster = Cluster::start().await;
    fill(&cluster).await;
    api(&cluster).delete("town", &DeleteParams::default()).await.unwrap();
    until_gone(&cluster, "town").await;
    cluster.make_namespace("town").await;
    let left = |items: usize| assert_eq!(items, 0);
    left(cluster.api_in::<Pod>("town").list(&Default::default()).await.unwrap().items.len());
    left(cluster.api_in::<Service>("town").list(&Default::default()).await.unwrap().items.len());
}

/// A pod that cannot go yet keeps everything else alive, and the conditions say so.
#[tokio::test(flavor = "multi_thread")]
async fn pods_go_before_all_else() {
    let cluster = Cluster::start().await;
    fill(&cluster).await;
    let pods = cluster.api_in::<Pod>("town");
    let held = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/held"]}}));
    pods.patch("p", &PatchParams::default(), &held).await.unwrap();
    api(&cluster).delete("town", &DeleteParams::default()).await.unwrap();
    eventually("the conditions say what blocks", async || {
        let status = json!(api(&cluster).get("town").await.unwrap().status).to_string();
        if status.contains("example.com/held") && status.contains("Terminating") {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;
    assert!(cluster.api_in::<ConfigMap>("town").get_opt("c").await.unwrap().is_some());
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pods.patch("p", &PatchParams::default(), &free).await.unwrap();
    until_gone(&cluster, "town").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_like_any_object() {
    let cluster = Cluster::with_nodes(0).await;
    cluster.make_namespace("town").await;
    let api = api(&cluster);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"patched": "yes"}}}));
    let seen = api.patch("town", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(seen.metadata.labels.as_ref().unwrap()["patched"], "yes");
    let mut seen = seen;
    seen.metadata.labels.as_mut().unwrap().insert("updated".to_owned(), "yes".to_owned());
    let seen = api.replace("town", &PostParams::default(), &seen).await.unwrap();
    assert_eq!(seen.metadata.labels.unwrap()["updated"], "yes");
    assert_eq!(seen.status.unwrap().phase.as_deref(), Some("Active"));
    let status = Patch::Merge(
        json!({"status": {"conditions": [{"type": "Mine", "status": "True", "reason": "Patched", "message": ""}]}}),
    );
    let mut seen = api.patch_status("town", &PatchParams::default(), &status).await.unwrap();
    let reason =
        |namespace: &Namespace| namespace.status.clone().unwrap().conditions.unwrap()[0].reason.clone();
    assert_eq!(reason(&seen).as_deref(), Some("Patched"));
    seen.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].reason = Some("Updated".to_owned());
    let seen = api.replace_status("town", &PostParams::default(), &seen).await.unwrap();
    assert_eq!(reason(&seen).as_deref(), Some("Updated"));
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_come_and_go() {
    let cluster = Cluster::with_nodes(0).await;
    cluster.make_namespace("town").await;
    let api = api(&cluster);
    let set = async |finalizers: &[&str]| {
        let mut seen = api.get("town").await.unwrap();
        seen.spec.as_mut().unwrap().finalizers =
            Some(finalizers.iter().map(|&name| name.to_owned()).collect());
        let request = http::Request::put("/api/v1/namespaces/town/finalize")
            .body(serde_json::to_vec(&seen).unwrap())
            .unwrap();
        let seen: Namespace = cluster.client.request(request).await.unwrap();
        seen.spec.unwrap().finalizers.unwrap_or_default()
    };
    assert_eq!(set(&["kubernetes", "example.com/mine"]).await, ["kubernetes", "example.com/mine"]);
    assert_eq!(set(&["kubernetes"]).await, ["kubernetes"]);
}
