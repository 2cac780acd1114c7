//! StatefulSets.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, image, is_ready, name, template, without_conflict};

fn stateful_set(change: Value) -> Value {
    let mut spec = json!({"replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "v1")});
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "db", "labels": {"test": "db"}}, "spec": spec})
}

fn new_image(image: &str) -> Value {
    json!({"spec": {"template": template("db", image)}})
}

async fn is_up(cluster: &Cluster, count: usize) -> Vec<Pod> {
    cluster
        .until_pods("app=db", &format!("{count} ready"), |pods| {
            pods.len() == count && pods.iter().all(is_ready)
        })
        .await
}

async fn rolled_out(cluster: &Cluster, image_wanted: &str) -> StatefulSet {
    cluster
        .until_pods("app=db", "rolled out", |pods| {
            pods.len() == 3 && pods.iter().all(|pod| image(pod) == image_wanted && is_ready(pod))
        })
        .await;
    cluster
        .until::<StatefulSet>("db", "the status follows", |set| {
            let status = set.status.clone().unwrap_or_default();
            status.update_revision == status.current_revision && status.current_replicas == Some(3)
        })
        .await
}

fn is_gap_free(pods: &[Pod]) -> bool {
    pods.iter().enumerate().all(|(i, pod)| name(pod) == format!("db-{i}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn scales_in_order_and_waits_for_the_unhealthy() {
    let cluster = Cluster::start().await;
    cluster.create::<StatefulSet>(stateful_set(json!({"replicas": 1}))).await;
    is_up(&cluster, 1).await;
    // While the first one is ill nobody joins.
    let ill = json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2030-01-01T00:00:00Z"}]);
    cluster.patch_status::<Pod>("db-0", json!({ "conditions": ill })).await;
    cluster
        .until::<StatefulSet>("db", "known to be ill", |set| {
            set.status.as_ref().is_some_and(|status| status.ready_replicas.unwrap_or(0) == 0)
        })
        .await;
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 3}})).await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(cluster.pods("app=db").await.len(), 1);
    let well = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]);
    cluster.patch_status::<Pod>("db-0", json!({ "conditions": well })).await;
    cluster
        .until_pods("app=db", "up in order", |pods| {
            assert!(is_gap_free(pods) && pods.iter().filter(|pod| !is_ready(pod)).count() <= 1);
            pods.len() == 3 && pods.iter().all(is_ready)
        })
        .await;
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 0}})).await;
    cluster
        .until_pods("app=db", "down from the top", |pods| {
            assert!(is_gap_free(pods));
            pods.is_empty()
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_sets_do_not_wait() {
    let cluster = Cluster::start().await;
    // No node takes the pods, so none becomes ready.
    let mut stuck = template("db", "v1");
    stuck["spec"]["nodeSelector"] = json!({"nowhere": "true"});
    let change = json!({"podManagementPolicy": "Parallel", "template": stuck});
    cluster.create::<StatefulSet>(stateful_set(change)).await;
    cluster.until_pods("app=db", "all at once", |pods| pods.len() == 3).await;
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 0}})).await;
    cluster.until_pods("app=db", "gone at once", <[Pod]>::is_empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolls_one_at_a_time_and_back_to_a_known_revision() {
    let cluster = Cluster::start().await;
    cluster.create::<StatefulSet>(stateful_set(json!({}))).await;
    let first = rolled_out(&cluster, "v1").await.status.unwrap().current_revision;
    cluster.patch::<StatefulSet>("db", new_image("v2")).await;
    cluster
        .until_pods("app=db", "all are new", |pods| {
            assert!(pods.iter().filter(|pod| is_ready(pod)).count() >= 2, "more than one at a time");
            let images: Vec<&str> = pods.iter().map(image).collect();
            assert!(images.is_sorted(), "from the top down: {images:?}");
            images == ["v2"; 3]
        })
        .await;
    let second = rolled_out(&cluster, "v2").await.status.unwrap().current_revision;
    assert_ne!(first, second);
    cluster.patch::<StatefulSet>("db", new_image("v1")).await;
    assert_eq!(rolled_out(&cluster, "v1").await.status.unwrap().current_revision, first);
    assert_eq!(
        cluster.list::<ControllerRevision>("app=db").await.len(),
        2,
        "no new revision for the old template"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_a_canary() {
    let cluster = Cluster::start().await;
    let partition = |at: i32| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": at}});
    cluster.create::<StatefulSet>(stateful_set(json!({"updateStrategy": partition(2)}))).await;
    rolled_out(&cluster, "v1").await;
    cluster.patch::<StatefulSet>("db", new_image("v2")).await;
    let images = |pods: &[Pod]| pods.iter().map(|pod| image(pod).to_owned()).collect::<Vec<_>>();
    let canary = |pods: &[Pod]| images(pods) == ["v1", "v1", "v2"] && pods.iter().all(is_ready);
    let before = cluster.until_pods("app=db", "only the canary", canary).await;
    // One below the partition that dies comes back as it was.
    for pod in ["db-0", "db-2"] {
        cluster.delete::<Pod>(pod, DeleteParams::default()).await;
    }
    cluster
        .until_pods("app=db", "the same again", |pods| {
            canary(pods) && pods[0].metadata.uid != before[0].metadata.uid
        })
        .await;
    let roll = json!({"spec": {"updateStrategy": partition(0)}});
    cluster.patch::<StatefulSet>("db", roll).await;
    rolled_out(&cluster, "v2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_rollout_is_left_by_a_rollback() {
    let cluster = Cluster::start().await;
    cluster.create::<StatefulSet>(stateful_set(json!({}))).await;
    rolled_out(&cluster, "v1").await;
    let mut broken = template("db", "v2");
    broken["spec"]["nodeSelector"] = json!({"nowhere": "true"});
    cluster.patch::<StatefulSet>("db", json!({"spec": {"template": broken}})).await;
    cluster.until_pods("app=db", "stuck", |pods| pods.iter().any(|pod| image(pod) == "v2")).await;
    let mut good = new_image("v1");
    good["spec"]["template"]["spec"]["nodeSelector"] = Value::Null;
    cluster.patch::<StatefulSet>("db", good).await;
    rolled_out(&cluster, "v1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_pods_come_back_under_their_name() {
    let cluster = Cluster::start().await;
    cluster.create::<StatefulSet>(stateful_set(json!({"replicas": 1}))).await;
    let before = is_up(&cluster, 1).await;
    cluster.patch_status::<Pod>("db-0", json!({"phase": "Failed", "reason": "Evicted"})).await;
    cluster
        .until::<Pod>("db-0", "recreated", |pod| pod.metadata.uid != before[0].metadata.uid && is_ready(pod))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_stay_or_go_as_the_policy_says() {
    let cluster = Cluster::start().await;
    // Nobody provides volumes here: pods wait, and Parallel ones do not wait for each other.
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Retain"});
    let change = json!({"podManagementPolicy": "Parallel", "volumeClaimTemplates": claims, "persistentVolumeClaimRetentionPolicy": policy});
    cluster.create::<StatefulSet>(stateful_set(change)).await;
    cluster.until_pods("app=db", "three", |pods| pods.len() == 3).await;
    let names = async || {
        cluster
            .list::<PersistentVolumeClaim>("app=db")
            .await
            .iter()
            .map(|c| name(c).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["data-db-0", "data-db-1", "data-db-2"]);
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
    cluster.until_pods("app=db", "one", |pods| pods.len() == 1).await;
    assert_eq!(names().await.len(), 3, "kept when scaled");
    cluster.delete::<StatefulSet>("db", DeleteParams::background()).await;
    cluster.until_gone::<PersistentVolumeClaim>("data-db-0").await;
    cluster.until_gone::<PersistentVolumeClaim>("data-db-2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scale_and_status_subresources() {
    let cluster = Cluster::start().await;
    cluster.create::<StatefulSet>(stateful_set(json!({"replicas": 1}))).await;
    let api = cluster.api::<StatefulSet>();
    without_conflict(async || {
        let mut scale: Scale = api.get_scale("db").await?;
        assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(1));
        scale.spec.as_mut().unwrap().replicas = Some(2);
        api.replace_scale("db", &PostParams::default(), &scale).await
    })
    .await;
    is_up(&cluster, 2).await;
    cluster
        .patch_status::<StatefulSet>("db", json!({"conditions": [{"type": "Mine", "status": "True"}]}))
        .await;
    cluster
        .patch::<StatefulSet>(
            "db",
            json!({"metadata": {"labels": {"patched": "yes"}}, "spec": {"replicas": 1}}),
        )
        .await;
    let seen = cluster
        .until::<StatefulSet>("db", "one", |set| {
            set.status.as_ref().is_some_and(|status| status.replicas == 1)
        })
        .await;
    assert_eq!(seen.status.clone().unwrap().conditions.unwrap()[0].type_.as_deref(), Some("Mine"));
    let replaced = without_conflict(async || {
        let mut replaced = api.get_status("db").await?;
        replaced.status.as_mut().unwrap().conditions = None;
        api.replace_status("db", &PostParams::default(), &replaced).await
    })
    .await;
    assert_eq!(replaced.status.unwrap().conditions, None);
    assert_eq!(cluster.list::<StatefulSet>("test=db,patched=yes").await.len(), 1);
    super::collections::delete_all::<StatefulSet>(&cluster, "test=db").await;
}
