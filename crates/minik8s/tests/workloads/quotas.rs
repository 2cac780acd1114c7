//! ResourceQuotas: usage that goes up and down.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::{Cluster, template};

fn pod(name: &str) -> Value {
    let mut pod = template("quota", "x");
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "500m"}});
    pod
}

async fn used(cluster: &Cluster, resource: &str, amount: &str) {
    cluster
        .until::<ResourceQuota>("q", &format!("{resource}={amount}"), |quota| {
            let used = quota.status.clone().unwrap_or_default().used.unwrap_or_default();
            used.get(resource).is_some_and(|quantity| quantity.0 == amount)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_is_given_back() {
    let cluster = Cluster::start().await;
    cluster.create::<Pod>(pod("first")).await;
    let hard = json!({"pods": "2", "requests.cpu": "1", "configmaps": "10", "count/replicasets.apps": "3"});
    cluster.create::<ResourceQuota>(json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    // What was there before the quota counts too.
    used(&cluster, "pods", "1").await;
    used(&cluster, "count/replicasets.apps", "0").await;
    cluster.create::<Pod>(pod("second")).await;
    used(&cluster, "requests.cpu", "1").await;
    let third: Pod = serde_json::from_value(pod("third")).unwrap();
    let error = cluster.api::<Pod>().create(&PostParams::default(), &third).await.unwrap_err();
    assert!(error.to_string().contains("exceeded quota: q"), "{error}");
    cluster.delete::<Pod>("first", DeleteParams::default()).await;
    used(&cluster, "pods", "1").await;
    used(&cluster, "requests.cpu", "500m").await;
    // A count that was under way when the pod went may stand for a moment.
    let begun = std::time::Instant::now();
    while let Err(error) = cluster.api::<Pod>().create(&PostParams::default(), &third).await {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    cluster.create::<ConfigMap>(json!({"metadata": {"name": "a"}})).await;
    used(&cluster, "pods", "2").await;
    used(&cluster, "configmaps", "1").await;
    cluster.delete::<ConfigMap>("a", DeleteParams::default()).await;
    used(&cluster, "configmaps", "0").await;
}
