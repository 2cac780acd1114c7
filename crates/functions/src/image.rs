//! Images of one layer in the registry, for code and for what it depends on.

use minik8s_meta::image_repository::REGISTRY_HOST;
use minik8s_registry::client::{MANIFEST, PushError, Repository};
use serde_json::json;
use sha2::{Digest, Sha256};

/// What is sent at once.
const PART: usize = 8 << 20;

/// A layer that the repository holds.
pub struct Layer {
    pub digest: String,
    pub size: u64,
}

/// Makes an image of it; the digest of that.
pub async fn push(repository: &Repository<'_>, tag: &str, layer: &Layer) -> Result<String, PushError> {
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
    });
    let config = push_bytes(repository, config.to_string().into_bytes()).await?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json", "digest": config.digest, "size": config.size,
        },
        "layers": [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer.digest, "size": layer.size},
        ],
    });
    let manifest = manifest.to_string().into_bytes();
    let name = digest(&manifest);
    repository.push_manifest(tag, manifest, MANIFEST).await?;
    Ok(name)
}

/// Something that fits into memory.
pub async fn push_bytes(repository: &Repository<'_>, bytes: Vec<u8>) -> Result<Layer, PushError> {
    let layer = Layer { digest: digest(&bytes), size: bytes.len() as u64 };
    if !repository.has_blob(&layer.digest).await? {
        let mut upload = repository.upload().await?;
        for part in bytes.chunks(PART) {
            upload.append(part.to_vec()).await?;
        }
        upload.finish(&layer.digest).await?;
    }
    Ok(layer)
}

/// As pods call it.
pub fn reference(namespace: &str, repository: &str, digest: &str) -> String {
    format!("{REGISTRY_HOST}/{namespace}/{repository}@{digest}")
}

/// The digest in such a reference.
pub fn digest_in(reference: &str) -> Option<&str> {
    reference.split_once('@').map(|(_, digest)| digest)
}

pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Go's name of this machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
