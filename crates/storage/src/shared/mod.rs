//! The class `shared` on the server's side: every node is told how it is set up.
//!
//! The set-up is a Secret that `minik8s storage enable shared` writes; nodes have no right to read it. It is sent to each
//! node that is ready, through the API server as requests to nodes are: again when it changes and when a node comes back.
//! All else is the work of [`crate::csi`], for which it is a driver like others.

mod due;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::storage::v1::CSINode;
use kube::Client;
use minik8s_meta::shared_storage::{CONFIG_KEY, NODE_PATH, SECRET, SharedStorage};
use minik8s_runtime::{Caches, ListOptions};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use due::{Told, due};

/// Until a node that could not be told is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Until `stop`. Works only while this server leads.
pub async fn tell_nodes(
    client: Client,
    caches: Arc<Caches>,
    leads: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = run(client, caches, leads) => {}
    }
}

async fn run(client: Client, caches: Arc<Caches>, mut leads: watch::Receiver<bool>) {
    let (told_change, mut changes) = watch::channel(0_u64);
    let told_change = Arc::new(told_change);
    let sender = told_change.clone();
    caches.of::<Node>().listen(Box::new(move |_, _| sender.send_modify(|count| *count += 1)));
    let sender = told_change.clone();
    caches.of::<CSINode>().listen(Box::new(move |_, _| sender.send_modify(|count| *count += 1)));
    let named = ListOptions::fields(format!("metadata.name={SECRET}")).within("kube-system");
    let secret = caches.informer::<Secret>(named);
    secret.listen(Box::new(move |_, _| told_change.send_modify(|count| *count += 1)));
    caches.of::<Node>().wait_synced().await;
    caches.of::<CSINode>().wait_synced().await;
    secret.wait_synced().await;
    let mut found = secret.list().pop();
    let mut setup: Option<Option<SharedStorage>> = read(found.as_deref());
    let mut told: HashMap<String, Told> = HashMap::new();
    loop {
        let mut is_complete = true;
        changes.borrow_and_update();
        let now = secret.list().pop();
        if now != found {
            setup = read(now.as_deref()).or(setup);
            found = now;
        }
        if let Some(setup) = setup.as_ref().filter(|_| *leads.borrow_and_update()) {
            let (nodes, csi_nodes) = (caches.of::<Node>().list(), caches.of::<CSINode>().list());
            for (node, news) in due(setup.as_ref(), &nodes, &csi_nodes, &mut told) {
                match tell(&client, &node, setup.as_ref()).await {
                    Ok(()) => drop(told.insert(node, news)),
                    Err(error) => {
                        is_complete = false;
                        tracing::debug!(node, %error, "cannot tell a node of shared storage yet");
                    }
                }
            }
        }
        tokio::select! {
            Ok(()) = changes.changed() => {}
            Ok(()) = leads.changed() => {}
            () = tokio::time::sleep(AGAIN), if !is_complete => {}
        }
    }
}

/// None if what is there cannot be read: then nobody is told anything.
fn read(secret: Option<&Secret>) -> Option<Option<SharedStorage>> {
    let Some(secret) = secret.filter(|secret| secret.metadata.deletion_timestamp.is_none()) else {
        return Some(None);
    };
    let text = secret.data.as_ref().and_then(|data| data.get(CONFIG_KEY));
    match text.map(|text| serde_json::from_slice(&text.0)) {
        Some(Ok(setup)) => Some(Some(setup)),
        Some(Err(error)) => {
            tracing::warn!(%error, "the Secret {SECRET} cannot be read: run `minik8s storage enable shared` again");
            None
        }
        None => None,
    }
}

async fn tell(client: &Client, node: &str, setup: Option<&SharedStorage>) -> Result<(), kube::Error> {
    let body = serde_json::to_vec(&setup).map_err(kube::Error::SerdeError)?;
    let request = Request::builder()
        .method(Method::PUT)
        .uri(format!("/api/v1/nodes/{node}/proxy/{NODE_PATH}"))
        .header("content-type", "application/json")
        .body(body)
        .map_err(kube::Error::HttpError)?;
    client.request_text(request).await.map(drop)
}
