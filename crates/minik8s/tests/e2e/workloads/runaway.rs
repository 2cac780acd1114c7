//! Templates whose pods always crash make no flood of pods.

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::cluster::Cluster;

/// Pods of this template fail as soon as they run.
fn crashing(app: &str, policy: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}, "annotations": {"minik8s.io/run-seconds": "0", "minik8s.io/exit-code": "1"}},
        "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "x"}]},
    })
}

/// How many pods were made in six seconds, dead ones included: at least so many, which takes longer on a busy machine.
async fn made(cluster: &Cluster, least: usize) -> usize {
    let begun = Instant::now();
    let mut uids = std::collections::BTreeSet::new();
    while begun.elapsed() < Duration::from_secs(6) || uids.len() < least {
        uids.extend(cluster.list::<Pod>("").await.into_iter().filter_map(|pod| pod.metadata.uid));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    uids.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_slow_down() {
    let cluster = Cluster::start().await;
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": crashing("a", "Always")});
    cluster.create::<Deployment>(json!({"metadata": {"name": "a"}, "spec": spec})).await;
    let made = made(&cluster, 3).await;
    assert!((3..=9).contains(&made), "{made} pods for three replicas");
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_with_identity_slow_down() {
    let cluster = Cluster::start().await;
    let selector = json!({"matchLabels": {"app": "a"}});
    let spec = json!({"replicas": 3, "podManagementPolicy": "Parallel", "serviceName": "a", "selector": selector, "template": crashing("a", "Always")});
    cluster.create::<StatefulSet>(json!({"metadata": {"name": "a"}, "spec": spec})).await;
    let selector = json!({"matchLabels": {"app": "b"}});
    let spec = json!({"selector": selector, "template": crashing("b", "Always")});
    cluster.create::<DaemonSet>(json!({"metadata": {"name": "b"}, "spec": spec})).await;
    let made = made(&cluster, 5).await;
    assert!((5..=10).contains(&made), "{made} pods for five places");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_slow_down() {
    let cluster = Cluster::start().await;
    let spec =
        json!({"completions": 3, "parallelism": 3, "backoffLimit": 1000, "template": crashing("a", "Never")});
    cluster.create::<Job>(json!({"metadata": {"name": "a"}, "spec": spec})).await;
    let made = made(&cluster, 3).await;
    assert!((3..=6).contains(&made), "{made} pods for three tasks");
}
