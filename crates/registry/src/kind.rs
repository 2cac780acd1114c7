//! ImageRepository as a kind: made when it is read, of what lies on this server's disk. It is written by pushing alone.

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_api::{Cell, Column, Computed, Objects, ReadError, Resource, Scope, Strategy, table};
use minik8s_meta::image_repository::{ImageRepository, ImageTag, REGISTRY_HOST};
use minik8s_meta::{api_version, kind};
use serde_json::Value;

use crate::Shelf;
use crate::error::Result;
use crate::protocol::read_namespaces;
use crate::store::{Repository, Store};

pub fn resource(shelf: Shelf) -> Resource {
    Resource::of::<ImageRepository>(Columns).computed(Repositories(shelf))
}

struct Repositories(Shelf);

#[async_trait]
impl Computed for Repositories {
    async fn objects(&self, cluster: &dyn Objects, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
        let Some(store) = self.0.get().cloned() else { return Ok(Vec::new()) };
        let namespace = Some(scope.namespace).filter(|namespace| !namespace.is_empty());
        let namespaces = read_namespaces(cluster, namespace).await;
        let namespaces = namespaces.map_err(|error| ReadError(error.to_string()))?;
        let wanted = scope.name.map(str::to_owned);
        let listing = tokio::task::spawn_blocking(move || list(&store, namespaces, wanted.as_deref()));
        let listed = listing.await.map_err(|error| ReadError(error.to_string()))?;
        listed.map_err(|error| ReadError(error.to_string()))
    }
}

fn list(store: &Store, mut namespaces: Vec<(String, String)>, wanted: Option<&str>) -> Result<Vec<Value>> {
    namespaces.sort();
    let mut objects = Vec::new();
    for (namespace, uid) in &namespaces {
        let all = store.repositories(uid)?.into_iter();
        for repository in all.filter(|one| wanted.is_none_or(|name| one.name == name)) {
            objects.push(object(store, namespace, &repository)?);
        }
    }
    Ok(objects)
}

fn object(store: &Store, namespace: &str, repository: &Repository) -> Result<Value> {
    let tags = store.tags(repository)?.into_iter();
    let bytes = store.named_blobs(repository)?.values().sum::<u64>();
    let object = ImageRepository {
        api_version: api_version::<ImageRepository>(),
        kind: kind::<ImageRepository>(),
        metadata: ObjectMeta {
            name: Some(repository.name.clone()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        image: format!("{REGISTRY_HOST}/{namespace}/{}", repository.name),
        tags: tags.map(|tag| ImageTag { name: tag.name, digest: tag.digest.to_string() }).collect(),
        bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
    };
    Ok(serde_json::to_value(object).map_err(std::io::Error::other)?)
}

struct Columns;

impl Strategy for Columns {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Image", "Tags", "Bytes"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        let tags = object["tags"].as_array().into_iter().flatten();
        let names: Vec<&str> = tags.filter_map(|tag| tag["name"].as_str()).collect();
        vec![
            table::name(object),
            table::text_or(&object["image"], "").into(),
            names.join(",").into(),
            table::text_or(&object["bytes"], "0").into(),
        ]
    }
}
