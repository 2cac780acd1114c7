//! ResourceQuotas: usage that goes up and down.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ReplicationController, ResourceQuota, Secret, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, Namespaced, template};

fn pod(name: &str) -> Value {
    let mut pod = template("quota", "x");
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "500m"}});
    pod
}

async fn quota(cluster: &Cluster, name: &str, hard: Value, scopes: &[&str]) -> ResourceQuota {
    let labels = json!({"made-by": "quotas"});
    let spec = json!({"hard": hard, "scopes": scopes});
    cluster.create(json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).await
}

async fn used(cluster: &Cluster, resource: &str, amount: &str) {
    used_of(cluster, "q", resource, amount).await;
}

async fn used_of(cluster: &Cluster, quota: &str, resource: &str, amount: &str) {
    cluster
        .until::<ResourceQuota>(quota, &format!("{resource}={amount}"), |quota| {
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
    settled(&cluster).await;
    let third: Pod = serde_json::from_value(pod("third")).unwrap();
    let error = cluster.api::<Pod>().create(&PostParams::default(), &third).await.unwrap_err();
    assert!(error.to_string().contains("exceeded quota: q"), "{error}");
    cluster.delete::<Pod>("first", DeleteParams::default()).await;
    used(&cluster, "pods", "1").await;
    used(&cluster, "requests.cpu", "500m").await;
    // A count that was under way when the pod went may stand for a moment.
    let begun = std::time::Instant::now();
    while let Err(error) = cluster.api::<Pod>().create(&PostParams::default(), &third).await {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    cluster.create::<ConfigMap>(json!({"metadata": {"name": "a"}})).await;
    used(&cluster, "pods", "2").await;
    used(&cluster, "configmaps", "1").await;
    cluster.delete::<ConfigMap>("a", DeleteParams::default()).await;
    used(&cluster, "configmaps", "0").await;
}

/// Waits until nobody counts any more: a count that was under way when a pod came may stand for a moment.
async fn settled(cluster: &Cluster) {
    let version = async || cluster.get::<ResourceQuota>("q").await.metadata.resource_version;
    let mut seen = None;
    while seen != version().await {
        seen = version().await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

/// Creating the object takes one of the resource, deleting it gives it back.
async fn counted<K: Namespaced>(cluster: &Cluster, resource: &str, before: i32, mut object: Value) {
    object["metadata"]["name"] = json!("counted");
    used(cluster, resource, &before.to_string()).await;
    cluster.create::<K>(object).await;
    used(cluster, resource, &(before + 1).to_string()).await;
    cluster.delete::<K>("counted", DeleteParams::background()).await;
    used(cluster, resource, &before.to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_counted_as_they_come_and_go() {
    let cluster = Cluster::start().await;
    let hard = json!({
        "configmaps": "5", "secrets": "5", "services": "5", "services.nodeports": "1",
        "services.loadbalancers": "1", "count/replicasets.apps": "5", "replicationcontrollers": "5",
        "resourcequotas": "1",
    });
    // The Service `kubernetes` is there from the start.
    quota(&cluster, "q", hard, &[]).await;
    used(&cluster, "resourcequotas", "1").await;
    counted::<ConfigMap>(&cluster, "configmaps", 0, json!({"data": {"a": "b"}})).await;
    counted::<Secret>(&cluster, "secrets", 0, json!({"stringData": {"a": "b"}})).await;
    for (kind, resource, before) in [
        ("NodePort", "services.nodeports", 0),
        ("LoadBalancer", "services.loadbalancers", 0),
        ("ClusterIP", "services", 1),
    ] {
        let spec = json!({"type": kind, "ports": [{"port": 80}]});
        counted::<Service>(&cluster, resource, before, json!({ "spec": spec })).await;
    }
    let template = template("rs", "x");
    let labels = &template["metadata"]["labels"];
    let replicas =
        |selector: Value| json!({"spec": {"replicas": 0, "selector": selector, "template": template}});
    let set = replicas(json!({"matchLabels": labels}));
    counted::<ReplicaSet>(&cluster, "count/replicasets.apps", 0, set).await;
    let controller = replicas(labels.clone());
    counted::<ReplicationController>(&cluster, "replicationcontrollers", 0, controller).await;
    settled(&cluster).await;
    let second = json!({"metadata": {"name": "second"}, "spec": {"hard": {"pods": "1"}}});
    let second: ResourceQuota = serde_json::from_value(second).unwrap();
    let error = cluster.api().create(&PostParams::default(), &second).await.unwrap_err();
    assert!(error.to_string().contains("exceeded quota: q, requested: resourcequotas=1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_resources_are_counted() {
    let cluster = Cluster::start().await;
    let hard = json!({
        "pods": "5", "requests.cpu": "1", "requests.memory": "500Mi", "requests.ephemeral-storage": "50Gi",
        "requests.example.com/dongle": "3",
    });
    quota(&cluster, "q", hard, &[]).await;
    used(&cluster, "pods", "0").await;
    let asks = |name: &str, cpu: &str, dongles: &str| {
        let mut pod = pod(name);
        let requests = json!({"cpu": cpu, "memory": "252Mi", "ephemeral-storage": "30Gi", "example.com/dongle": dongles});
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": requests, "limits": {"example.com/dongle": dongles}});
        pod
    };
    cluster.create::<Pod>(asks("fits", "500m", "2")).await;
    for (resource, amount) in [
        ("pods", "1"),
        ("requests.cpu", "500m"),
        ("requests.memory", "252Mi"),
        ("requests.ephemeral-storage", "30Gi"),
        ("requests.example.com/dongle", "2"),
    ] {
        used(&cluster, resource, amount).await;
    }
    settled(&cluster).await;
    for (name, cpu, dongles) in [("much-cpu", "600m", "1"), ("many-dongles", "100m", "2")] {
        let mut pod = asks(name, cpu, dongles);
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("1Mi");
        pod["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = json!("1Mi");
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let error = cluster.api().create(&PostParams::default(), &pod).await.unwrap_err();
        assert!(error.to_string().contains("exceeded quota: q"), "{name}: {error}");
    }
    let mut grown = json!(cluster.get::<Pod>("fits").await);
    grown["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("100m");
    let grown: Pod = serde_json::from_value(grown).unwrap();
    let error = cluster.api().replace("fits", &PostParams::default(), &grown).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 422), "{error}");
    cluster.delete::<Pod>("fits", DeleteParams::default()).await;
    for resource in ["pods", "requests.cpu", "requests.memory", "requests.example.com/dongle"] {
        used(&cluster, resource, "0").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_counts_its_pods_only() {
    let cluster = Cluster::start().await;
    let scopes = ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating"];
    for scope in scopes {
        quota(&cluster, &scope.to_lowercase(), json!({"pods": "5"}), &[scope]).await;
        used_of(&cluster, &scope.to_lowercase(), "pods", "0").await;
    }
    let limits = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}});
    for (resources, deadline, counting) in [
        (json!({}), Value::Null, ["besteffort", "notterminating"]),
        (limits.clone(), Value::Null, ["notbesteffort", "notterminating"]),
        (limits, json!(3600), ["notbesteffort", "terminating"]),
        (json!({}), json!(3600), ["besteffort", "terminating"]),
    ] {
        let mut pod = pod("scoped");
        pod["spec"]["containers"][0]["resources"] = resources;
        pod["spec"]["activeDeadlineSeconds"] = deadline;
        cluster.create::<Pod>(pod).await;
        for quota in scopes.map(str::to_lowercase) {
            let amount = if counting.contains(&quota.as_str()) { "1" } else { "0" };
            used_of(&cluster, &quota, "pods", amount).await;
        }
        cluster.delete::<Pod>("scoped", DeleteParams::default()).await;
        cluster.until_gone::<Pod>("scoped").await;
        for quota in scopes.map(str::to_lowercase) {
            used_of(&cluster, &quota, "pods", "0").await;
        }
    }
}

/// What the status says is allowed is what the spec says, whatever others write there.
#[tokio::test(flavor = "multi_thread")]
async fn lives_like_any_object() {
    let cluster = Cluster::start().await;
    let hard_is = async |cpu: &str| {
        cluster
            .until::<ResourceQuota>("q", &format!("{cpu} allowed"), |quota| {
                json!(quota)["status"]["hard"]["cpu"] == cpu && json!(quota)["spec"]["hard"]["cpu"] == cpu
            })
            .await;
    };
    quota(&cluster, "q", json!({"cpu": "1", "memory": "500Mi"}), &[]).await;
    hard_is("1").await;
    let wrong = cluster.patch_status::<ResourceQuota>("q", json!({"hard": {"cpu": "7"}})).await;
    assert_eq!(json!(wrong)["spec"]["hard"]["cpu"], "1");
    assert_eq!(json!(wrong)["status"]["hard"]["cpu"], "7");
    hard_is("1").await;
    cluster.patch::<ResourceQuota>("q", json!({"spec": {"hard": {"cpu": "2"}}})).await;
    hard_is("2").await;
    let mut replaced = json!(cluster.get::<ResourceQuota>("q").await);
    replaced["spec"]["hard"] = json!({"cpu": "3", "memory": "1Gi"});
    // The controller may write its count in between.
    while let Err(error) = cluster
        .api::<ResourceQuota>()
        .replace("q", &PostParams::default(), &serde_json::from_value(replaced.clone()).unwrap())
        .await
    {
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 409), "{error}");
        replaced["metadata"]["resourceVersion"] =
            json!(cluster.get::<ResourceQuota>("q").await.metadata.resource_version);
    }
    hard_is("3").await;
    quota(&cluster, "other", json!({"pods": "1"}), &[]).await;
    let all: Api<ResourceQuota> = Api::all(cluster.client.clone());
    let selected = ListParams::default().labels("made-by=quotas");
    assert_eq!(all.list(&selected).await.unwrap().items.len(), 2);
    cluster.delete::<ResourceQuota>("other", DeleteParams::default()).await;
    cluster.until_gone::<ResourceQuota>("other").await;
    cluster.api::<ResourceQuota>().delete_collection(&DeleteParams::default(), &selected).await.unwrap();
    cluster.until_gone::<ResourceQuota>("q").await;
}
