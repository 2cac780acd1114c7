//! Why a claim has no volume, in words.

use anyhow::Context;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;
use kube::api::{Api, ListParams};

use crate::output;

pub async fn run(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = claims.get_opt(name).await?;
    let claim = claim.with_context(|| format!("there is no claim {name} in namespace {namespace}"))?;
    let class = match claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()) {
        Some(class) if !class.is_empty() => Api::<StorageClass>::all(client.clone()).get_opt(class).await?,
        _ => None,
    };
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volumes = volumes.list(&ListParams::default()).await.context("cannot list persistentvolumes")?.items;
    let about = format!("involvedObject.kind=PersistentVolumeClaim,involvedObject.name={name}");
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut events = events.list(&ListParams::default().fields(&about)).await?.items;
    events.retain(|event| event.involved_object.uid == claim.metadata.uid);
    events.sort_by_key(|event| event.last_timestamp.clone().map(|time| time.0));
    let last = events.last().map(|event| {
        format!(
            "{}: {}",
            event.reason.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default()
        )
    });
    let told: Vec<String> = last.into_iter().collect();
    output::words(&minik8s_storage::explain(&claim, class.as_ref(), &volumes, &told))?;
    Ok(())
}
