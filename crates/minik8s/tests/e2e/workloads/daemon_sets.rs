//! DaemonSets and the revisions they keep.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, image, is_ready, name, template, without_conflict};

fn daemon_set(change: Value) -> Value {
    let mut spec =
        json!({"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "v1")});
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "agent", "labels": {"test": "agent"}}, "spec": spec})
}

fn new_image(image: &str) -> Value {
    json!({"spec": {"template": template("agent", image)}})
}

fn nodes(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect()
}

async fn on_all(cluster: &Cluster, count: usize, wanted: &str) -> Vec<Pod> {
    cluster
        .until_pods("app=agent", &format!("on {count} nodes"), |pods| {
            pods.len() == count
                && nodes(pods).len() == count
                && pods.iter().all(|pod| image(pod) == wanted && is_ready(pod))
        })
        .await
}

async fn label_node(cluster: &Cluster, node: &str, labels: Value) {
    let api: Api<Node> = Api::all(cluster.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    api.patch(node, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_pod_on_every_node_and_again_when_it_goes() {
    let cluster = Cluster::with_nodes(3).await;
    cluster.create::<DaemonSet>(daemon_set(json!({}))).await;
    let pods = on_all(&cluster, 3, "v1").await;
    cluster.delete::<Pod>(name(&pods[0]), DeleteParams::default()).await;
    cluster.until_gone::<Pod>(name(&pods[0])).await;
    on_all(&cluster, 3, "v1").await;
    let seen = cluster
        .until::<DaemonSet>("agent", "all ready", |set| {
            set.status.as_ref().is_some_and(|s| s.number_ready == 3)
        })
        .await;
    assert_eq!(seen.status.unwrap().desired_number_scheduled, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_daemons_are_replaced() {
    let cluster = Cluster::start().await;
    cluster.create::<DaemonSet>(daemon_set(json!({}))).await;
    let pods = on_all(&cluster, 2, "v1").await;
    cluster.patch_status::<Pod>(name(&pods[0]), json!({"phase": "Failed"})).await;
    cluster.until_gone::<Pod>(name(&pods[0])).await;
    on_all(&cluster, 2, "v1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_the_labels_of_nodes() {
    let cluster = Cluster::with_nodes(3).await;
    let mut picky = template("agent", "v1");
    picky["spec"]["nodeSelector"] = json!({"color": "blue"});
    cluster.create::<DaemonSet>(daemon_set(json!({ "template": picky }))).await;
    cluster
        .until::<DaemonSet>("agent", "looked at", |set| {
            set.status.as_ref().is_some_and(|s| s.observed_generation == Some(1))
        })
        .await;
    assert!(cluster.pods("app=agent").await.is_empty());
    label_node(&cluster, "sim-0001", json!({"color": "blue"})).await;
    let pods = on_all(&cluster, 1, "v1").await;
    assert_eq!(nodes(&pods), ["sim-0001".to_owned()].into());
    label_node(&cluster, "sim-0001", json!({"color": "green"})).await;
    cluster.until_pods("app=agent", "gone", <[Pod]>::is_empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolls_node_by_node_and_back_without_needless_restarts() {
    let cluster = Cluster::with_nodes(3).await;
    cluster.create::<DaemonSet>(daemon_set(json!({}))).await;
    on_all(&cluster, 3, "v1").await;
    cluster.patch::<DaemonSet>("agent", new_image("v2")).await;
    cluster
        .until_pods("app=agent", "all are new", |pods| {
            assert!(pods.iter().filter(|pod| is_ready(pod)).count() >= 2, "more than one at a time");
            pods.len() == 3 && pods.iter().all(|pod| image(pod) == "v2" && is_ready(pod))
        })
        .await;
    // A template that no node can start: the first node gets stuck.
    let before = on_all(&cluster, 3, "v2").await;
    let mut broken = template("agent", "v3");
    broken["spec"]["schedulingGates"] = json!([{"name": "example.com/never"}]);
    cluster.patch::<DaemonSet>("agent", json!({"spec": {"template": broken}})).await;
    cluster.until_pods("app=agent", "stuck", |pods| pods.iter().any(|pod| image(pod) == "v3")).await;
    let mut good = new_image("v2");
    good["spec"]["template"]["spec"]["schedulingGates"] = Value::Null;
    cluster.patch::<DaemonSet>("agent", good).await;
    let after = on_all(&cluster, 3, "v2").await;
    let kept =
        before.iter().filter(|pod| after.iter().any(|now| now.metadata.uid == pod.metadata.uid)).count();
    assert_eq!(kept, 2, "only the stuck node was touched");
}

#[tokio::test(flavor = "multi_thread")]
async fn surge_starts_the_new_before_the_old_goes() {
    let cluster = Cluster::with_nodes(3).await;
    let surge = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    cluster.create::<DaemonSet>(daemon_set(json!({ "updateStrategy": surge }))).await;
    on_all(&cluster, 3, "v1").await;
    cluster.patch::<DaemonSet>("agent", new_image("v2")).await;
    cluster
        .until_pods("app=agent", "all are new", |pods| {
            let served: BTreeSet<_> =
                nodes(&pods.iter().filter(|pod| is_ready(pod)).cloned().collect::<Vec<_>>());
            assert_eq!(served.len(), 3, "a node is not served");
            pods.len() == 3 && pods.iter().all(|pod| image(pod) == "v2")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_collections() {
    let cluster = Cluster::start().await;
    cluster.create::<DaemonSet>(daemon_set(json!({}))).await;
    on_all(&cluster, 2, "v1").await;
    let api = cluster.api::<DaemonSet>();
    cluster
        .patch_status::<DaemonSet>("agent", json!({"conditions": [{"type": "Mine", "status": "True"}]}))
        .await;
    cluster.patch::<DaemonSet>("agent", new_image("v2")).await;
    on_all(&cluster, 2, "v2").await;
    let seen = api.get_status("agent").await.unwrap();
    assert_eq!(seen.status.as_ref().unwrap().conditions.as_ref().unwrap()[0].type_.as_deref(), Some("Mine"));
    let replaced = without_conflict(async || {
        let mut wanted = api.get_status("agent").await?;
        wanted.status.as_mut().unwrap().conditions = None;
        api.replace_status("agent", &PostParams::default(), &wanted).await
    })
    .await;
    assert_eq!(replaced.status.unwrap().conditions, None);
    assert_eq!(cluster.list::<DaemonSet>("test=agent").await.len(), 1);
    super::collections::delete_all::<DaemonSet>(&cluster, "test=agent").await;
    cluster.until_pods("app=agent", "gone", <[Pod]>::is_empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_can_be_handled_like_any_object() {
    let cluster = Cluster::start().await;
    cluster.create::<DaemonSet>(daemon_set(json!({}))).await;
    on_all(&cluster, 2, "v1").await;
    let revisions = async || cluster.list::<ControllerRevision>("app=agent").await;
    let first = revisions().await.remove(0);
    cluster
        .patch::<ControllerRevision>(name(&first), json!({"metadata": {"labels": {"first": "yes"}}}))
        .await;
    assert_eq!(cluster.list::<ControllerRevision>("first=yes").await.len(), 1);
    let mut second = first.clone();
    second.metadata = ObjectMeta::default();
    second.metadata.name = Some("agent-copy".to_owned());
    second.metadata.labels = first.metadata.labels.clone();
    second.metadata.owner_references = first.metadata.owner_references.clone();
    second.revision = Some(2);
    cluster.api::<ControllerRevision>().create(&PostParams::default(), &second).await.unwrap();
    assert_eq!(revisions().await.len(), 2);
    cluster.delete::<ControllerRevision>(name(&first), DeleteParams::default()).await;
    assert_eq!(revisions().await.len(), 1);
    let api = cluster.api::<ControllerRevision>();
    without_conflict(async || {
        let mut second = api.get("agent-copy").await?;
        second.metadata.labels.as_mut().unwrap().insert("second".to_owned(), "yes".to_owned());
        api.replace("agent-copy", &PostParams::default(), &second).await
    })
    .await;
    assert_eq!(cluster.list::<ControllerRevision>("second=yes").await.len(), 1);
    cluster.patch::<DaemonSet>("agent", new_image("v2")).await;
    on_all(&cluster, 2, "v2").await;
    assert_eq!(revisions().await.len(), 2);
    super::collections::delete_all::<ControllerRevision>(&cluster, "second=yes").await;
    let left = revisions().await;
    assert_eq!((left.len(), left[0].revision), (1, Some(3)));
}
