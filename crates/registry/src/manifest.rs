//! What a manifest names: the blobs of an image, or other manifests. Pure.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::digest::Digest;
use crate::error::{ErrorCode, RegistryError, Result};

/// No image that people make comes near.
pub const LARGEST: usize = 4 << 20;
const MOST_REFERENCES: usize = 4096;

const IMAGES: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub media_type: String,
    /// Configuration and layers, with their sizes.
    pub blobs: BTreeSet<(Digest, u64)>,
    /// What an index holds.
    pub manifests: BTreeSet<Digest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: u32,
    media_type: Option<String>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    #[serde(default)]
    size: u64,
    /// Where a layer is that nobody may pass on.
    #[serde(default)]
    urls: Vec<String>,
}

impl Manifest {
    /// As it was sent, with the type that the client calls it.
    pub fn parse(bytes: &[u8], content_type: &str) -> Result<Self> {
        let invalid = |told: String| RegistryError::new(ErrorCode::ManifestInvalid, told);
        let document: Document = serde_json::from_slice(bytes)
            .map_err(|error| invalid(format!("the manifest cannot be read: {error}")))?;
        if document.schema_version != 2 {
            return Err(invalid(format!("schemaVersion {} is not served, 2 is", document.schema_version)));
        }
        let called = content_type.split(';').next().unwrap_or_default().trim();
        let media_type = document.media_type.as_deref().unwrap_or(called);
        if !called.is_empty() && called != media_type {
            return Err(invalid(format!("the manifest calls itself {media_type}, the request {called}")));
        }
        let is_index = INDEXES.contains(&media_type);
        if !is_index && !IMAGES.contains(&media_type) {
            let known = [IMAGES, INDEXES].concat().join(", ");
            return Err(invalid(format!(
                "manifests of type {media_type:?} are not kept; these are: {known}"
            )));
        }
        let named = document.config.iter().chain(&document.layers).filter(|blob| blob.urls.is_empty());
        let blobs = named.map(|blob| Ok((blob.digest.parse()?, blob.size))).collect::<Result<_>>()?;
        let manifests = document.manifests.iter().map(|one| one.digest.parse()).collect::<Result<_>>()?;
        let manifest = Manifest { media_type: media_type.to_owned(), blobs, manifests };
        if !is_index && document.config.is_none() {
            return Err(invalid("the manifest of an image has a config".to_owned()));
        }
        if manifest.blobs.len() + manifest.manifests.len() > MOST_REFERENCES {
            return Err(invalid(format!("a manifest names at most {MOST_REFERENCES} others")));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn image() -> Value {
        json!({"schemaVersion": 2, "mediaType": IMAGES[0], "config": {"digest": Digest::of(b"c").to_string(), "size": 1},
            "layers": [{"digest": Digest::of(b"l").to_string(), "size": 5},
                {"digest": Digest::of(b"away").to_string(), "size": 5, "urls": ["https://example.com/x"]}]})
    }

    #[test]
    fn image_names_its_config_and_layers() {
        let manifest = Manifest::parse(image().to_string().as_bytes(), IMAGES[0]).unwrap();
        let blobs: Vec<u64> = manifest.blobs.iter().map(|(_, size)| *size).collect();
        assert_eq!((blobs.iter().sum::<u64>(), blobs.len(), manifest.manifests.len()), (6, 2, 0));
    }

    #[test]
    fn manifest_that_is_none_is_refused() {
        let check = |change: fn(&mut Value), content_type: &str, fits: bool| {
            let mut document = image();
            change(&mut document);
            let parsed = Manifest::parse(document.to_string().as_bytes(), content_type);
            assert_eq!(parsed.is_ok(), fits, "{document} {content_type}");
        };
        check(|_| (), IMAGES[0], true);
        check(|_| (), "", true);
        check(|_| (), &format!("{}; charset=utf-8", IMAGES[0]), true);
        check(|_| (), IMAGES[1], false);
        check(|document| drop(document.as_object_mut().unwrap().remove("mediaType")), IMAGES[1], true);
        check(|document| drop(document.as_object_mut().unwrap().remove("mediaType")), "text/html", false);
        check(|document| drop(document.as_object_mut().unwrap().remove("config")), IMAGES[0], false);
        check(|document| document["schemaVersion"] = json!(1), IMAGES[0], false);
        check(|document| document["layers"][0]["digest"] = json!("sha256:../../x"), IMAGES[0], false);
        assert!(Manifest::parse(b"rubbish", IMAGES[0]).is_err());
    }

    #[test]
    fn fuzz_manifest_parse() {
        let image = image().to_string();
        let index = json!({"schemaVersion": 2, "mediaType": INDEXES[0], "manifests": [{"digest": Digest::of(b"m").to_string()}]});
        let index = index.to_string();
        let inputs = [image.as_bytes(), index.as_bytes()];
        let words = &["sha256:", "\"digest\"", "\"size\"", "-1", "1e99", "null", "[", "{"];
        minik8s_fuzz::fuzz("manifest", 1, minik8s_fuzz::Corpus { inputs: &inputs, words }, |input| {
            for content_type in ["", IMAGES[0], INDEXES[0]] {
                if let Ok(manifest) = Manifest::parse(input, content_type) {
                    assert!(manifest.blobs.iter().all(|(digest, _)| digest.hex().len() == 64));
                }
            }
        });
    }
}
