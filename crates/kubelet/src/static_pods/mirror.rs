//! The API server's view of a static pod.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use minik8s_meta::Backoff;
use tracing::{info, warn};

use super::{MIRROR, mirrored};

const RETRY: Backoff = Backoff::millis(500, 20_000);

/// Makes the mirror of a static pod, in place of whatever has its name. Tries until it is there.
pub async fn keep_mirror(client: kube::Client, node_name: String, pod: core::Pod) {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let mut retries = RETRY.retries();
    loop {
        match make_mirror(&client, &node_name, &pod).await {
            Ok(true) => return info!(pod = name, "the API server mirrors a static pod"),
            Ok(false) => {}
            Err(error) => warn!(%error, pod = name, "cannot mirror a static pod"),
        }
        tokio::time::sleep(retries.failed()).await;
    }
}

/// False if an object of another pod stood in the way: it is being deleted.
async fn make_mirror(client: &kube::Client, node_name: &str, pod: &core::Pod) -> Result<bool, kube::Error> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<core::Pod> = Api::namespaced(client.clone(), namespace);
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let nodes: Api<core::Node> = Api::all(client.clone());
    let node = nodes.get(node_name).await?;
    match api.create(&PostParams::default(), &mirror(pod, &node)).await {
        Err(kube::Error::Api(error)) if error.code == 409 => {}
        other => return other.map(|_| true),
    }
    // A node may read only pods of its own, so this comes second.
    let Some(found) = api.get_opt(name).await? else { return Ok(false) };
    if mirrored(&found) == pod.metadata.uid.as_ref() && found.metadata.deletion_timestamp.is_none() {
        return Ok(true);
    }
    delete_mirror(client, &found).await?;
    Ok(false)
}

/// The object as it is sent. Pure.
fn mirror(pod: &core::Pod, node: &core::Node) -> core::Pod {
    let mut mirror = pod.clone();
    let meta = &mut mirror.metadata;
    if let Some(uid) = meta.uid.take() {
        meta.annotations.get_or_insert_default().insert(MIRROR.to_owned(), uid);
    }
    meta.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.metadata.name.clone().unwrap_or_default(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        ..Default::default()
    }]);
    mirror
}

/// Deletes this very object at once; the containers are not its own.
pub async fn delete_mirror(client: &kube::Client, pod: &core::Pod) -> Result<(), kube::Error> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<core::Pod> = Api::namespaced(client.clone(), namespace);
    let parameters = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(pod.metadata.name.as_deref().unwrap_or_default(), &parameters).await {
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}
