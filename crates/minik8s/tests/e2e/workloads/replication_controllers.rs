//! ReplicationControllers: the same loop as ReplicaSets, in its older form.

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{Pod, ReplicationController, ResourceQuota};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, is_ready, template, without_conflict};

fn controller(replicas: i32) -> Value {
    let spec = json!({"replicas": replicas, "selector": {"app": "rc"}, "template": template("rc", "v1")});
    json!({"metadata": {"name": "rc", "labels": {"test": "rc"}}, "spec": spec})
}

async fn has_ready(cluster: &Cluster, count: i32) -> ReplicationController {
    cluster
        .until::<ReplicationController>("rc", &format!("{count} ready"), |rc| {
            let status = rc.status.clone().unwrap_or_default();
            status.ready_replicas.unwrap_or(0) == count && status.replicas == count
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn lives_from_creation_to_deletion() {
    let cluster = Cluster::start().await;
    cluster.create::<ReplicationController>(controller(1)).await;
    has_ready(&cluster, 1).await;
    let labelled = cluster
        .patch::<ReplicationController>("rc", json!({"metadata": {"labels": {"patched": "yes"}}}))
        .await;
    assert_eq!(labelled.metadata.labels.unwrap()["patched"], "yes");
    cluster
        .patch_status::<ReplicationController>(
            "rc",
            json!({"conditions": [{"type": "Mine", "status": "True"}]}),
        )
        .await;
    cluster.patch::<ReplicationController>("rc", json!({"spec": {"replicas": 2}})).await;
    let seen = has_ready(&cluster, 2).await;
    assert!(seen.status.unwrap().conditions.unwrap().iter().any(|c| c.type_ == "Mine"));
    assert_eq!(cluster.list::<ReplicationController>("test=rc,patched=yes").await.len(), 1);
    cluster.delete::<ReplicationController>("rc", DeleteParams::background()).await;
    cluster.until_gone::<ReplicationController>("rc").await;
    cluster.until_pods("app=rc", "its pods go with it", <[Pod]>::is_empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scale_subresource() {
    let cluster = Cluster::start().await;
    cluster.create::<ReplicationController>(controller(1)).await;
    let api = cluster.api::<ReplicationController>();
    let scale = without_conflict(async || {
        let mut scale: Scale = api.get_scale("rc").await?;
        assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(1));
        scale.spec.as_mut().unwrap().replicas = Some(2);
        api.replace_scale("rc", &PostParams::default(), &scale).await
    })
    .await;
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    has_ready(&cluster, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adopts_a_matching_pod() {
    let cluster = Cluster::start().await;
    let mut orphan = template("rc", "v1");
    orphan["metadata"]["name"] = json!("orphan");
    cluster.create::<Pod>(orphan).await;
    cluster.create::<ReplicationController>(controller(1)).await;
    has_ready(&cluster, 1).await;
    let pod: Pod = cluster.get("orphan").await;
    assert_eq!(pod.metadata.owner_references.unwrap()[0].kind, "ReplicationController");
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_a_pod_that_no_longer_matches() {
    let cluster = Cluster::start().await;
    cluster.create::<ReplicationController>(controller(1)).await;
    has_ready(&cluster, 1).await;
    let pod = cluster.pods("app=rc").await.remove(0);
    let pod = super::cluster::name(&pod);
    cluster.patch::<Pod>(pod, json!({"metadata": {"labels": {"app": "mine"}}})).await;
    cluster
        .until::<Pod>(pod, "released", |pod| pod.metadata.owner_references.as_ref().is_none_or(Vec::is_empty))
        .await;
    cluster.until_pods("app=rc", "replaced", |pods| pods.len() == 1 && is_ready(&pods[0])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_used_up_shows_in_the_conditions() {
    let cluster = Cluster::start().await;
    cluster
        .create::<ResourceQuota>(json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}))
        .await;
    cluster.create::<ReplicationController>(controller(3)).await;
    let failure = |rc: &ReplicationController| {
        let conditions = rc.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        conditions.into_iter().find(|c| c.type_ == "ReplicaFailure")
    };
    let seen = cluster.until::<ReplicationController>("rc", "says why", |rc| failure(rc).is_some()).await;
    assert!(failure(&seen).unwrap().message.unwrap().contains("exceeded quota: q"));
    cluster.patch::<ReplicationController>("rc", json!({"spec": {"replicas": 2}})).await;
    cluster
        .until::<ReplicationController>("rc", "all is well again", |rc| {
            failure(rc).is_none() && rc.status.as_ref().is_some_and(|status| status.replicas == 2)
        })
        .await;
}
