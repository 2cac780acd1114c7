//! Features that are switched off: nothing of them is served, and the rest works. Nodes are simulated; what features of a
//! node's agent leave out is shown beside them (`src/features.rs`).

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, pin_mut, stream};
use http::Request;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, WatchEvent, WatchParams};
use minik8s::features::{AgentFeatures, ServerFeatures};
use minik8s_feature::ServerFeature;
use serde_json::json;

use crate::harness::{Server, client};
use crate::workloads::cluster::{Cluster, is_ready, template};

/// Clusters at once.
const AT_ONCE: usize = 3;

/// A feature, and where the objects of its kinds are read.
struct Feature {
    name: &'static str,
    paths: Vec<String>,
}

/// All features of servers, the mesh among them.
fn features() -> Vec<Feature> {
    let all = ServerFeatures::new(&[], true).unwrap();
    let feature = |feature: &Arc<dyn ServerFeature>| {
        let kinds = feature.extension().kinds;
        let paths = kinds.iter().map(|kind| format!("/apis/{}/{}", kind.api_version(), kind.plural));
        Feature { name: feature.name(), paths: paths.collect() }
    };
    all.list.iter().map(feature).collect()
}

async fn is_served(client: &Client, path: &str) -> bool {
    match client.request_text(Request::get(path).body(Vec::new()).unwrap()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => false,
        // One that is only asked questions cannot be listed.
        Ok(_) | Err(kube::Error::Api(_)) => true,
        Err(error) => panic!("{path}: {error}"),
    }
}

async fn assert_ready(client: &Client) {
    let request = Request::get("/readyz").body(Vec::new()).unwrap();
    assert_eq!(client.request_text(request).await.unwrap(), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_any_feature_serves_the_built_in_kinds() {
    let features = features();
    let names = features.iter().map(|feature| feature.name);
    let mut flags = vec!["--mesh"];
    flags.extend(
        names.chain(AgentFeatures::to_teardown().names()).flat_map(|name| ["--disable-feature", name]),
    );
    let server = Server::start_with(&flags);
    let client = client(&server.kubeconfig()).await.unwrap();
    assert_ready(&client).await;
    for path in features.iter().flat_map(|feature| &feature.paths) {
        assert!(!is_served(&client, path).await, "{path}");
    }
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let apply = async |value: &str| {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
        maps.patch("a", &PatchParams::apply("test"), &Patch::Apply(map)).await.unwrap()
    };
    let first = apply("first").await;
    let version = first.metadata.resource_version.unwrap();
    let changes = maps
        .watch(&WatchParams::default().fields("metadata.name=a").disable_bookmarks(), &version)
        .await
        .unwrap();
    pin_mut!(changes);
    let second = apply("second").await;
    assert_eq!(maps.get("a").await.unwrap().data, second.data);
    match changes.try_next().await.unwrap() {
        Some(WatchEvent::Modified(seen)) => assert_eq!(seen.data, second.data),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn feature_that_is_switched_off_leaves_the_others_working() {
    let all = features();
    assert!(all.iter().filter(|feature| !feature.paths.is_empty()).count() > 5, "features bring kinds");
    stream::iter(&all).for_each_concurrent(AT_ONCE, |off| works_without(off, &all)).await;
}

async fn works_without(off: &Feature, all: &[Feature]) {
    let features = ServerFeatures::new(&[off.name.to_owned()], off.name == "mesh").unwrap();
    let cluster = Cluster::with_features(1, features).await;
    assert_ready(&cluster.client).await;
    for feature in all {
        let expected = feature.name != off.name && feature.name != "mesh";
        for path in &feature.paths {
            assert_eq!(is_served(&cluster.client, path).await, expected, "without {}: {path}", off.name);
        }
    }
    let spec =
        json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "i")});
    let made = cluster.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let alone = json!({"metadata": {"name": "alone"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.create::<Pod>(alone).await;
    cluster.until::<Pod>("alone", &format!("ready without {}", off.name), is_ready).await;
    if off.name == "workloads" {
        // A later object was seen and acted upon; this one is nobody's.
        let seen = cluster.get::<Deployment>("web").await;
        assert_eq!(seen.metadata.resource_version, made.metadata.resource_version);
        assert!(cluster.pods("app=web").await.is_empty());
        return;
    }
    let what = format!("two ready without {}", off.name);
    cluster.until_pods("app=web", &what, |pods| pods.iter().filter(|pod| is_ready(pod)).count() == 2).await;
}
