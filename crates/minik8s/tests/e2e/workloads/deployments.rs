//! Deployments.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, eventually, image, is_ready, name, template, without_conflict};

fn deployment(change: Value) -> Value {
    let mut spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "v1")});
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "web", "labels": {"test": "deployment"}}, "spec": spec})
}

fn new_image(image: &str) -> Value {
    json!({"spec": {"template": template("web", image)}})
}

/// All replicas are there, of the newest template, and nothing else.
fn is_complete(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas;
    let Some(status) = &deployment.status else { return false };
    status.observed_generation == deployment.metadata.generation
        && [status.replicas, status.updated_replicas, status.available_replicas] == [wanted; 3]
}

async fn rolled_out(cluster: &Cluster) -> Deployment {
    cluster.until::<Deployment>("web", "rolled out", is_complete).await
}

fn condition(deployment: &Deployment, kind: &str) -> Option<(String, String)> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|c| c.type_.as_deref() == Some(kind))?;
    Some((found.status.clone()?, found.reason.clone().unwrap_or_default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn lives_from_creation_to_deletion() {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment(json!({}))).await;
    let seen = rolled_out(&cluster).await;
    assert_eq!(condition(&seen, "Available").unwrap(), ("True".into(), "MinimumReplicasAvailable".into()));
    assert_eq!(condition(&seen, "Progressing").unwrap(), ("True".into(), "NewReplicaSetAvailable".into()));
    cluster
        .patch::<Deployment>(
            "web",
            json!({"metadata": {"labels": {"patched": "yes"}}, "spec": {"replicas": 5}}),
        )
        .await;
    rolled_out(&cluster).await;
    // What others write into the status stays.
    let conditions = json!([{"type": "Mine", "status": "True", "reason": "Because"}]);
    cluster.patch_status::<Deployment>("web", json!({ "conditions": conditions })).await;
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 2}})).await;
    let seen = rolled_out(&cluster).await;
    assert_eq!(condition(&seen, "Mine").unwrap(), ("True".into(), "Because".into()));
    let api = cluster.api::<Deployment>();
    without_conflict(async || {
        let mut replaced = api.get_status("web").await?;
        let conditions = replaced.status.as_mut().and_then(|status| status.conditions.as_mut()).unwrap();
        conditions.retain(|c| c.type_.as_deref() != Some("Mine"));
        api.replace_status("web", &PostParams::default(), &replaced).await
    })
    .await;
    assert_eq!(condition(&cluster.get("web").await, "Mine"), None);
    cluster.delete::<Deployment>("web", DeleteParams::background()).await;
    cluster.until_gone::<Deployment>("web").await;
    cluster.until_pods("app=web", "its pods go with it", <[Pod]>::is_empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolls_to_a_new_template_without_losing_service() {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment(json!({"replicas": 4}))).await;
    rolled_out(&cluster).await;
    cluster.patch::<Deployment>("web", new_image("v2")).await;
    let pods = eventually("all are new", async || {
        // 25 % of 4 may be missing, 25 % may be too many; of those that one set shall no longer have, some may be there
        // while another begins to make what it may have instead.
        let sets = cluster.list::<ReplicaSet>("app=web").await;
        let wanted: i32 = sets.iter().filter_map(|set| set.spec.replicas).sum();
        let pods = cluster.pods("app=web").await;
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let seen = format!("{ready} ready of {}, {wanted} wanted", pods.len());
        assert!(ready >= 3 && wanted <= 5, "{seen}");
        let is_over = pods.len() == 4 && pods.iter().all(|pod| image(pod) == "v2" && is_ready(pod));
        if is_over { Ok(pods) } else { Err(seen) }
    })
    .await;
    let seen = rolled_out(&cluster).await;
    assert_eq!(seen.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "2");
    let sets = cluster.list::<ReplicaSet>("app=web").await;
    assert_eq!(sets.len(), 2, "the old one is kept for a rollback");
    let hash = &pods[0].metadata.labels.as_ref().unwrap()["pod-template-hash"];
    assert!(sets.iter().any(|set| name(set) == format!("web-{hash}")));
}

#[tokio::test(flavor = "multi_thread")]
async fn recreate_lets_the_old_ones_go_first() {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment(json!({"strategy": {"type": "Recreate"}}))).await;
    rolled_out(&cluster).await;
    cluster.patch::<Deployment>("web", new_image("v2")).await;
    cluster
        .until_pods("app=web", "all are new", |pods| {
            let old = pods.iter().filter(|pod| image(pod) == "v1").count();
            assert!(old == 0 || old == pods.len(), "old and new at once");
            pods.len() == 3 && old == 0 && pods.iter().all(is_ready)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_only_as_much_history_as_asked() {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment(json!({"replicas": 1, "revisionHistoryLimit": 0}))).await;
    rolled_out(&cluster).await;
    cluster.patch::<Deployment>("web", new_image("v2")).await;
    rolled_out(&cluster).await;
    eventually("one set is left", async || {
        let sets = cluster.list::<ReplicaSet>("app=web").await;
        if sets.len() == 1 { Ok(()) } else { Err(format!("{} sets", sets.len())) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolls_over_when_changed_in_the_middle() {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment(json!({"replicas": 5}))).await;
    for image in ["v2", "v3", "v4"] {
        cluster.patch::<Deployment>("web", new_image(image)).await;
    }
    rolled_out(&cluster).await;
    let pods = cluster.pods("app=web").await;
    assert!(pods.len() == 5 && pods.iter().all(|pod| image(pod) == "v4"));
}

/// Pods of a template that no node takes never become ready: the rollout stands still half way.
#[tokio::test(flavor = "multi_thread")]
async fn scales_in_proportion_while_a_rollout_is_stuck() {
    let cluster = Cluster::start().await;
    let limits = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    cluster
        .create::<Deployment>(deployment(
            json!({"replicas": 10, "strategy": limits, "progressDeadlineSeconds": 2}),
        ))
        .await;
    rolled_out(&cluster).await;
    let mut stuck = template("web", "v2");
    stuck["spec"]["nodeSelector"] = json!({"nowhere": "true"});
    cluster.patch::<Deployment>("web", json!({"spec": {"template": stuck}})).await;
    let sizes = async || {
        let mut sizes: Vec<i32> =
            cluster.list::<ReplicaSet>("app=web").await.iter().filter_map(|set| set.spec.replicas).collect();
        sizes.sort_unstable();
        sizes
    };
    let until = async |expected: [i32; 2]| {
        eventually(&format!("{expected:?}"), async || {
            let sizes = sizes().await;
            if sizes == expected { Ok(()) } else { Err(format!("{sizes:?}")) }
        })
        .await;
    };
    until([5, 8]).await;
    let seen = cluster
        .until::<Deployment>("web", "says that it is stuck", |d| {
            condition(d, "Progressing").is_some_and(|(_, reason)| reason == "ProgressDeadlineExceeded")
        })
        .await;
    assert_eq!(condition(&seen, "Progressing").unwrap().0, "False");
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 30}})).await;
    until([13, 20]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scale_subresource() {
    let cluster = Cluster::start().await;
    cluster.create::<Deployment>(deployment(json!({"replicas": 1}))).await;
    rolled_out(&cluster).await;
    let api = cluster.api::<Deployment>();
    let scale = without_conflict(async || {
        let mut scale: Scale = api.get_scale("web").await?;
        assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(1));
        scale.spec.as_mut().unwrap().replicas = Some(2);
        api.replace_scale("web", &PostParams::default(), &scale).await
    })
    .await;
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    rolled_out(&cluster).await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let scale = api.patch_scale("web", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(4));
    rolled_out(&cluster).await;
    assert_eq!(cluster.pods("app=web").await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_what_cannot_be() {
    let cluster = Cluster::with_nodes(0).await;
    let check = async |change: Value, field: &str| {
        let object: Deployment = serde_json::from_value(deployment(change.clone())).unwrap();
        let error = cluster.api::<Deployment>().create(&PostParams::default(), &object).await.unwrap_err();
        assert!(error.to_string().contains(field), "{change}: {error}");
    };
    check(json!({"replicas": -1}), "spec.replicas").await;
    check(
        json!({"selector": {"matchLabels": {"app": "other"}}}),
        "`selector` does not match template `labels`",
    )
    .await;
}
