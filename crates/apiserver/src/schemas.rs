//! OpenAPI documents, made when asked for and not kept: they are large and rarely read.

use bytes::Bytes;
use minik8s_api::{Resource, openapi};
use sha2::{Digest, Sha256};

use crate::aggregator;
use crate::api::Api;
use crate::catalog::Snapshot;

pub fn v3_index(api: &Api) -> Bytes {
    let snapshot = api.registry.catalog.snapshot();
    let mut index = openapi::v3_index(&resources(&snapshot));
    aggregator::add_to_index(&api.aggregator, &snapshot, &mut index);
    index.to_string().into()
}

pub fn v3_document(api: &Api, group: &str, version: &str) -> Option<Bytes> {
    let snapshot = api.registry.catalog.snapshot();
    let document = openapi::v3_document(group, version, &resources(&snapshot))?;
    Some(document.into())
}

pub async fn v2_json(api: &Api) -> Bytes {
    let snapshot = api.registry.catalog.snapshot();
    let others = aggregator::published(api, &snapshot).await;
    openapi::v2_json(&resources(&snapshot), &others).into()
}

pub async fn v2_protobuf(api: &Api) -> Bytes {
    let snapshot = api.registry.catalog.snapshot();
    let others = aggregator::published(api, &snapshot).await;
    openapi::v2_protobuf(&resources(&snapshot), &others).into()
}

pub fn hash(document: &[u8]) -> String {
    Sha256::digest(document).iter().take(16).map(|byte| format!("{byte:02X}")).collect()
}

fn resources(snapshot: &Snapshot) -> Vec<&Resource> {
    snapshot.resources().iter().map(|served| served.resource()).collect()
}
