//! The garbage collector: what goes when its owners go.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use super::cluster::{Cluster, eventually, name, template};

async fn make_deployment(cluster: &Cluster) {
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "v1")});
    cluster.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    cluster.until_pods("app=web", "two", |pods| pods.len() == 2).await;
}

async fn make_controller(cluster: &Cluster, named: &str, replicas: i32) -> ReplicationController {
    let spec = json!({"replicas": replicas, "selector": {"app": named}, "template": template(named, "v1")});
    let made = cluster.create(json!({"metadata": {"name": named}, "spec": spec})).await;
    let count = usize::try_from(replicas).unwrap();
    cluster.until_pods(&format!("app={named}"), "all", |pods| pods.len() == count).await;
    made
}

fn deleting(policy: PropagationPolicy) -> DeleteParams {
    DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() }
}

fn owners(pod: &Pod) -> Vec<&str> {
    pod.metadata.owner_references.iter().flatten().map(|owner| owner.name.as_str()).collect()
}

async fn none_left(cluster: &Cluster, selector: &str) {
    eventually("no pod is left", async || match cluster.list::<Pod>(selector).await.len() {
        0 => Ok(()),
        left => Err(format!("{left} left")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_background_dependents_follow() {
    let cluster = Cluster::start().await;
    make_deployment(&cluster).await;
    make_controller(&cluster, "rc", 2).await;
    cluster.delete::<Deployment>("web", deleting(PropagationPolicy::Background)).await;
    cluster.delete::<ReplicationController>("rc", deleting(PropagationPolicy::Background)).await;
    none_left(&cluster, "app in (web,rc)").await;
    assert!(cluster.list::<ReplicaSet>("app=web").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_foreground_dependents_go_first() {
    let cluster = Cluster::start().await;
    make_controller(&cluster, "rc", 20).await;
    cluster.delete::<ReplicationController>("rc", deleting(PropagationPolicy::Foreground)).await;
    loop {
        let left = cluster.list::<Pod>("app=rc").await.len();
        let owner = cluster.api::<ReplicationController>().get_opt("rc").await.unwrap();
        // Looked at later than its pods.
        let Some(owner) = owner else {
            assert_eq!(cluster.list::<Pod>("app=rc").await.len(), 0, "it went before its pods");
            break;
        };
        assert!(owner.metadata.deletion_timestamp.is_some(), "{left} pods left");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_stay() {
    let cluster = Cluster::start().await;
    make_deployment(&cluster).await;
    make_controller(&cluster, "rc", 10).await;
    cluster.delete::<Deployment>("web", deleting(PropagationPolicy::Orphan)).await;
    cluster.delete::<ReplicationController>("rc", deleting(PropagationPolicy::Orphan)).await;
    cluster.until_gone::<Deployment>("web").await;
    cluster.until_gone::<ReplicationController>("rc").await;
    let pods =
        cluster.until_pods("app=rc", "ownerless", |pods| pods.iter().all(|pod| owners(pod).is_empty())).await;
    assert_eq!(pods.len(), 10);
    let sets = cluster.list::<ReplicaSet>("app=web").await;
    assert_eq!(sets.len(), 1);
    assert!(sets[0].metadata.owner_references.as_ref().is_none_or(Vec::is_empty));
    assert_eq!(cluster.pods("app=web").await.len(), 2, "still those of their set");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_owner_left_is_enough() {
    let cluster = Cluster::start().await;
    make_controller(&cluster, "first", 10).await;
    let second = make_controller(&cluster, "second", 0).await;
    let pods = cluster.pods("app=first").await;
    let (shared, alone) = pods.split_at(5);
    for pod in shared {
        let mut references = json!(pod.metadata.owner_references);
        references.as_array_mut().unwrap().push(
            json!({"apiVersion": "v1", "kind": "ReplicationController", "name": "second", "uid": second.metadata.uid}),
        );
        cluster.patch::<Pod>(name(pod), json!({"metadata": {"ownerReferences": references}})).await;
    }
    cluster.delete::<ReplicationController>("first", deleting(PropagationPolicy::Foreground)).await;
    cluster.until_gone::<ReplicationController>("first").await;
    for pod in alone {
        cluster.until_gone::<Pod>(name(pod)).await;
    }
    let left = cluster.pods("app=first").await;
    assert_eq!(left.len(), 5);
    assert!(left.iter().all(|pod| owners(pod) == ["second"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_of_owners_blocks_nobody() {
    let cluster = Cluster::start().await;
    let mut uids = Vec::new();
    for pod in ["a", "b", "c"] {
        let mut object = template("circle", "x");
        object["metadata"]["name"] = json!(pod);
        uids.push(cluster.create::<Pod>(object).await.metadata.uid.unwrap());
    }
    for (pod, owner) in [("a", 2), ("b", 0), ("c", 1)] {
        let named = ["a", "b", "c"][owner];
        let reference: Value = json!({"apiVersion": "v1", "kind": "Pod", "name": named, "uid": uids[owner],
            "controller": true, "blockOwnerDeletion": true});
        cluster.patch::<Pod>(pod, json!({"metadata": {"ownerReferences": [reference]}})).await;
    }
    cluster.delete::<Pod>("a", deleting(PropagationPolicy::Foreground)).await;
    none_left(&cluster, "app=circle").await;
}
