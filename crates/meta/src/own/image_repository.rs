//! The fields of an ImageRepository: what the registry in the server keeps under one name. Rights on this kind are rights
//! to images: who may `get` it pulls, who may `update` it pushes, who may `delete` it deletes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::own::{api_version, kind};
use crate::served_type;

/// ImageRepository is what the registry in the server keeps under one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.ImageRepository")]
#[serde(rename_all = "camelCase")]
pub struct ImageRepository {
    /// APIVersion defines the versioned schema of this representation of an object.
    #[serde(default = "api_version::<ImageRepository>")]
    pub api_version: String,
    /// Kind is the name of this object's schema.
    #[serde(default = "kind::<ImageRepository>")]
    pub kind: String,
    /// Name and namespace of the repository.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// image is what pods call it, without a tag.
    pub image: String,
    /// tags in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<ImageTag>,
    /// bytes of all that its manifests name, each blob counted once.
    pub bytes: i64,
}

/// ImageTag is a name for one manifest of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "io.minik8s.v1.ImageTag")]
#[serde(rename_all = "camelCase")]
pub struct ImageTag {
    /// name of the tag.
    pub name: String,
    /// digest of the manifest that it stands for.
    pub digest: String,
}

/// What names of images in the registry begin with, whatever the addresses of the servers are. Nobody can own it on the
/// Internet, and no node asks a name server for it.
pub const REGISTRY_HOST: &str = "registry.minik8s.local";

served_type!(ImageRepository: "minik8s.io" "v1" "ImageRepository" "imagerepositories" NamespaceResourceScope);
