//! The control plane killed at any moment: it ends as if nothing had happened.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::cluster::{Cluster, image, is_ready, template};

/// What a controller had sent when it was killed may arrive after its successor has looked: at most a batch of its slow
/// start.
const IN_FLIGHT: usize = 8;

/// Kills controllers and scheduler this often, at moments that differ from run to run, and lets them live
/// again. A fixed seed: a failure can be repeated.
async fn disturb(cluster: &mut Cluster, times: u64, seed: u64) {
    let mut state = seed;
    for _ in 0..times {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        tokio::time::sleep(Duration::from_millis(5 + (state >> 33) % 120)).await;
        cluster.kill_control();
        cluster.restart_control();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_ends_as_if_nothing_had_happened() {
    let mut cluster = Cluster::with_nodes(3).await;
    let spec = json!({"replicas": 10, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "v1")});
    cluster.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    disturb(&mut cluster, 5, 1).await;
    cluster.patch::<Deployment>("web", json!({"spec": {"template": template("web", "v2")}})).await;
    disturb(&mut cluster, 5, 2).await;
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 15}})).await;
    disturb(&mut cluster, 5, 3).await;
    cluster
        .until_pods("app=web", "fifteen new ones", |pods| {
            assert!(pods.len() <= 19 + IN_FLIGHT, "{} pods: more than surge allows", pods.len());
            pods.len() == 15 && pods.iter().all(|pod| image(pod) == "v2" && is_ready(pod))
        })
        .await;
    cluster
        .until::<Deployment>("web", "complete", |deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            status.observed_generation == deployment.metadata.generation
                && status.available_replicas == Some(15)
                && status.updated_replicas == Some(15)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_never_has_two_of_a_name() {
    let mut cluster = Cluster::with_nodes(3).await;
    let spec = json!({"replicas": 5, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "v1")});
    cluster.create::<StatefulSet>(json!({"metadata": {"name": "db"}, "spec": spec})).await;
    disturb(&mut cluster, 8, 4).await;
    cluster.patch::<StatefulSet>("db", json!({"spec": {"template": template("db", "v2")}})).await;
    disturb(&mut cluster, 8, 5).await;
    let pods = cluster
        .until_pods("app=db", "all new", |pods| {
            pods.len() == 5 && pods.iter().all(|pod| image(pod) == "v2" && is_ready(pod))
        })
        .await;
    let names: Vec<_> = pods.iter().map(super::cluster::name).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2", "db-3", "db-4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_counts_every_pod_once() {
    let mut cluster = Cluster::with_nodes(3).await;
    let pod = json!({
        "metadata": {"annotations": {"minik8s.io/run-seconds": "0"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]},
    });
    let spec = json!({"completions": 30, "parallelism": 6, "template": pod});
    cluster.create::<Job>(json!({"metadata": {"name": "work"}, "spec": spec})).await;
    disturb(&mut cluster, 12, 6).await;
    let job = cluster
        .until::<Job>("work", "complete", |job| {
            let conditions = job.status.clone().unwrap_or_default().conditions.unwrap_or_default();
            conditions.iter().any(|c| c.type_ == "Complete" && c.status == "True")
        })
        .await;
    let status = job.status.unwrap();
    assert_eq!((status.succeeded, status.failed), (Some(30), None));
    let pods = cluster.list::<Pod>("batch.kubernetes.io/job-name=work").await;
    assert_eq!(pods.len(), 30, "none was made twice");
    assert!(pods.iter().all(|pod| pod.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)));
}
