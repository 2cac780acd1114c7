//! ReplicaSets.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, eventually, image, is_ready, name, template, without_conflict};

fn replica_set(replicas: i32) -> Value {
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "set"}}, "template": template("set", "v1")});
    json!({"metadata": {"name": "set", "labels": {"test": "set"}}, "spec": spec})
}

async fn has_ready(cluster: &Cluster, count: i32) -> ReplicaSet {
    cluster
        .until::<ReplicaSet>("set", &format!("{count} ready"), |set| {
            let status = set.status.clone().unwrap_or_default();
            status.ready_replicas.unwrap_or(0) == count && status.replicas == count
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn created_scaled_and_patched() {
    let cluster = Cluster::start().await;
    cluster.create::<ReplicaSet>(replica_set(1)).await;
    has_ready(&cluster, 1).await;
    let api = cluster.api::<ReplicaSet>();
    without_conflict(async || {
        let mut scale: Scale = api.get_scale("set").await?;
        assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(1));
        scale.spec.as_mut().unwrap().replicas = Some(2);
        api.replace_scale("set", &PostParams::default(), &scale).await
    })
    .await;
    has_ready(&cluster, 2).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let scale = api.patch_scale("set", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(4));
    has_ready(&cluster, 4).await;
    let patched = json!({"metadata": {"labels": {"patched": "yes"}}, "spec": {"replicas": 3, "template": template("set", "v2")}});
    let set = cluster.patch::<ReplicaSet>("set", patched).await;
    assert_eq!(set.metadata.labels.unwrap()["patched"], "yes");
    has_ready(&cluster, 3).await;
    // A new template is for new pods only.
    let pods = cluster.pods("app=set").await;
    assert!(pods.iter().all(|pod| image(pod) == "v1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_pods_are_replaced() {
    let cluster = Cluster::start().await;
    cluster.create::<ReplicaSet>(replica_set(3)).await;
    has_ready(&cluster, 3).await;
    let pods = cluster.pods("app=set").await;
    cluster.delete::<Pod>(name(&pods[0]), DeleteParams::default()).await;
    cluster.patch_status::<Pod>(name(&pods[1]), json!({"phase": "Failed"})).await;
    cluster
        .until_pods("app=set", "three new ones", |now| {
            let is_new = |pod: &&Pod| pods[..2].iter().all(|old| name(old) != name(*pod));
            now.iter().filter(is_new).filter(|pod| is_ready(pod)).count() == 3
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopts_and_releases() {
    let cluster = Cluster::start().await;
    let mut orphan = template("set", "v1");
    orphan["metadata"]["name"] = json!("orphan");
    cluster.create::<Pod>(orphan).await;
    cluster.create::<ReplicaSet>(replica_set(1)).await;
    has_ready(&cluster, 1).await;
    let pod: Pod = cluster.get("orphan").await;
    assert_eq!(pod.metadata.owner_references.unwrap()[0].name, "set", "adopted, not replaced");
    cluster.patch::<Pod>("orphan", json!({"metadata": {"labels": {"app": "mine"}}})).await;
    let released = cluster
        .until::<Pod>("orphan", "released", |pod| {
            pod.metadata.owner_references.as_ref().is_none_or(Vec::is_empty)
        })
        .await;
    assert_eq!(released.metadata.deletion_timestamp, None);
    cluster.until_pods("app=set", "replaced", |pods| pods.len() == 1 && is_ready(&pods[0])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_may_write_into_the_status() {
    let cluster = Cluster::start().await;
    cluster.create::<ReplicaSet>(replica_set(1)).await;
    let api = cluster.api::<ReplicaSet>();
    let mine = |set: &ReplicaSet| {
        let conditions = set.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        conditions.into_iter().find(|c| c.type_.as_deref() == Some("Mine")).and_then(|c| c.status)
    };
    has_ready(&cluster, 1).await;
    without_conflict(async || {
        let mut seen = api.get_status("set").await?;
        let condition = json!([{"type": "Mine", "status": "True"}]);
        seen.status.as_mut().unwrap().conditions = serde_json::from_value(condition).unwrap();
        api.replace_status("set", &PostParams::default(), &seen).await
    })
    .await;
    assert_eq!(mine(&api.get_status("set").await.unwrap()).as_deref(), Some("True"));
    cluster
        .patch_status::<ReplicaSet>("set", json!({"conditions": [{"type": "Mine", "status": "False"}]}))
        .await;
    cluster.patch::<ReplicaSet>("set", json!({"spec": {"replicas": 2}})).await;
    assert_eq!(mine(&has_ready(&cluster, 2).await).as_deref(), Some("False"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_is_listed_and_deleted() {
    let cluster = Cluster::start().await;
    cluster.create::<ReplicaSet>(replica_set(2)).await;
    assert_eq!(cluster.list::<ReplicaSet>("test=set").await.len(), 1);
    super::collections::delete_all::<ReplicaSet>(&cluster, "test=set").await;
    eventually("its pods are gone", async || match cluster.pods("app=set").await.len() {
        0 => Ok(()),
        left => Err(format!("{left} left")),
    })
    .await;
}
