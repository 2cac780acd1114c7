//! PodDisruptionBudgets and evictions.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{EvictParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, is_ready, name, template, without_conflict};

fn budget(change: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}});
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "web", "labels": {"test": "budget"}}, "spec": spec})
}

async fn three_pods(cluster: &Cluster) -> Vec<Pod> {
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "v1")});
    cluster.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    cluster
        .until_pods("app=web", "three ready", |pods| pods.iter().filter(|pod| is_ready(pod)).count() == 3)
        .await
}

async fn allows(cluster: &Cluster, count: i32) -> PodDisruptionBudget {
    cluster
        .until::<PodDisruptionBudget>("web", &format!("{count} allowed"), |budget| {
            let status = budget.status.clone().unwrap_or_default();
            status.disruptions_allowed == Some(count)
                && status.observed_generation == budget.metadata.generation
        })
        .await
}

async fn evict(cluster: &Cluster, pod: &Pod) -> Result<(), kube::Error> {
    cluster.api::<Pod>().evict(name(pod), &EvictParams::default()).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn evictions_wait_until_the_budget_allows_them() {
    let cluster = Cluster::start().await;
    let pods = three_pods(&cluster).await;
    cluster.create::<PodDisruptionBudget>(budget(json!({"minAvailable": 3}))).await;
    let seen = allows(&cluster, 0).await;
    assert_eq!(seen.status.unwrap().conditions.unwrap()[0].reason, "InsufficientPods");
    let error = evict(&cluster, &pods[0]).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(status.details.unwrap().causes[0].reason, "DisruptionBudget");
    cluster.patch::<PodDisruptionBudget>("web", json!({"spec": {"minAvailable": 2}})).await;
    allows(&cluster, 1).await;
    evict(&cluster, &pods[0]).await.unwrap();
    cluster.until_gone::<Pod>(name(&pods[0])).await;
    // The replacement is ready: the next one may go.
    allows(&cluster, 1).await;
    evict(&cluster, &pods[1]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn evictions_at_once_never_take_more_than_allowed() {
    let cluster = Cluster::start().await;
    let pods = three_pods(&cluster).await;
    cluster.create::<PodDisruptionBudget>(budget(json!({"maxUnavailable": 1}))).await;
    allows(&cluster, 1).await;
    // No replacements.
    cluster
        .patch::<Deployment>(
            "web",
            json!({"spec": {"paused": true, "template": {"spec": {"nodeSelector": {"nowhere": "true"}}}}}),
        )
        .await;
    let (a, b, c) =
        tokio::join!(evict(&cluster, &pods[0]), evict(&cluster, &pods[1]), evict(&cluster, &pods[2]));
    let went = [a, b, c].into_iter().filter(Result::is_ok).count();
    assert!((1..=2).contains(&went), "{went} of 3 at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_what_is_allowed() {
    let cluster = Cluster::start().await;
    three_pods(&cluster).await;
    cluster.create::<PodDisruptionBudget>(budget(json!({"maxUnavailable": "34%"}))).await;
    let status = allows(&cluster, 2).await.status.unwrap();
    assert_eq!(
        (status.expected_pods, status.current_healthy, status.desired_healthy),
        (Some(3), Some(3), Some(1))
    );
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 1}})).await;
    allows(&cluster, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operations_of_the_api() {
    let cluster = Cluster::with_nodes(0).await;
    cluster.create::<PodDisruptionBudget>(budget(json!({"minAvailable": 1}))).await;
    allows(&cluster, 0).await;
    let api = cluster.api::<PodDisruptionBudget>();
    without_conflict(async || {
        let mut seen = api.get("web").await?;
        seen.spec.as_mut().unwrap().min_available = Some(serde_json::from_value(json!("50%")).unwrap());
        api.replace("web", &PostParams::default(), &seen).await
    })
    .await;
    let patched = cluster
        .patch::<PodDisruptionBudget>("web", json!({"spec": {"minAvailable": null, "maxUnavailable": 2}}))
        .await;
    assert_eq!(patched.spec.unwrap().min_available, None);
    let patched = cluster
        .patch_status::<PodDisruptionBudget>(
            "web",
            json!({"disruptedPods": {"gone": "2030-01-01T00:00:00Z"}}),
        )
        .await;
    assert!(patched.status.unwrap().disrupted_pods.unwrap().contains_key("gone"));
    let replaced = without_conflict(async || {
        let mut seen = api.get_status("web").await?;
        seen.status.as_mut().unwrap().disrupted_pods = Some(
            [("other".to_owned(), serde_json::from_value(json!("2030-01-01T00:00:00Z")).unwrap())].into(),
        );
        api.replace_status("web", &PostParams::default(), &seen).await
    })
    .await;
    assert!(replaced.status.unwrap().disrupted_pods.unwrap().contains_key("other"));
    assert_eq!(cluster.list::<PodDisruptionBudget>("test=budget").await.len(), 1);
    let everywhere: kube::Api<PodDisruptionBudget> = kube::Api::all(cluster.client.clone());
    assert_eq!(everywhere.list(&kube::api::ListParams::default()).await.unwrap().items.len(), 1);
    super::collections::delete_all::<PodDisruptionBudget>(&cluster, "test=budget").await;
}
