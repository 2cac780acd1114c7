//! One more layer on an image of the node's store: no builder, no daemon, no Dockerfile.
//!
//! The layers of the base are not copied: the new image refers to them. Its files have fixed times and owners, so the same
//! files on the same base are the same image.

use serde_json::{Value, json};
use tonic::Status;

use super::archive::{ArchivedImage, Blob, Content};
use super::manifest::{self, Descriptor};
use super::store::{ImageStore, StoreError};
use super::{Recipe, normalize};

/// What changes besides the files; empty lists leave the base's.
#[derive(Debug, Default)]
pub struct Overlay {
    pub env: Vec<String>,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    pub work_dir: Option<String>,
}

impl ImageStore {
    /// Puts files on top of a base image and names the result.
    pub async fn build(
        &self,
        base: &str,
        files: &Recipe,
        overlay: &Overlay,
        tag: &str,
    ) -> Result<String, StoreError> {
        let manifest = self.manifest_of(base).await?;
        let digest_in = |value: &Value| value["digest"].as_str().unwrap_or_default().to_owned();
        let config = self.read_json(&digest_in(&manifest["config"])).await?;
        let layer = files.layer().map_err(|error| Status::internal(error.to_string()))?;
        let image = compose(&manifest, config, layer, overlay, tag).ok_or_else(|| {
            Status::invalid_argument(format!("{base} is not an image that can be built on"))
        })?;
        self.put(&image).await?;
        Ok(normalize(tag))
    }

    async fn manifest_of(&self, name: &str) -> Result<Value, StoreError> {
        let digest = self.manifest_digest(name).await?;
        self.read_json(&digest).await
    }

    /// The digest of an image's manifest: of this machine's architecture, where the image has several.
    pub async fn manifest_digest(&self, name: &str) -> Result<String, StoreError> {
        let digest = self.digest_of(name).await?;
        let found = self.read_json(&digest).await?;
        let Some(all) = found["manifests"].as_array() else { return Ok(digest) };
        let fits = |one: &&Value| {
            let platform = &one["platform"];
            platform.is_null()
                || platform["architecture"] == super::recipe::architecture() && platform["os"] == "linux"
        };
        let fitting = all.iter().find(fits).and_then(|one| one["digest"].as_str());
        Ok(fitting.ok_or_else(|| StoreError::NotFound(name.to_owned()))?.to_owned())
    }

    async fn read_json(&self, digest: &str) -> Result<Value, StoreError> {
        let bytes = self.read_blob(digest).await?;
        let parsed = serde_json::from_slice(&bytes);
        Ok(parsed.map_err(|error| Status::internal(format!("{digest}: {error}")))?)
    }
}

/// The new image's own blobs; None where the base's documents are not what they should be.
fn compose(
    base: &Value,
    mut config: Value,
    layer: Vec<u8>,
    overlay: &Overlay,
    tag: &str,
) -> Option<ArchivedImage> {
    let diff = manifest::digest(&layer);
    config.pointer_mut("/rootfs/diff_ids")?.as_array_mut()?.push(json!(diff));
    if let Some(history) = config.get_mut("history").and_then(Value::as_array_mut) {
        history.push(json!({"created_by": "minik8s image build"}));
    }
    let run = config.as_object_mut()?.entry("config").or_insert_with(|| json!({}));
    if run.is_null() {
        *run = json!({});
    }
    let fields = run.as_object_mut()?;
    let env = fields.entry("Env").or_insert_with(|| json!([]));
    if !env.is_array() {
        *env = json!([]);
    }
    let env = env.as_array_mut()?;
    for variable in &overlay.env {
        let name = format!("{}=", variable.split('=').next().unwrap_or_default());
        env.retain(|known| !known.as_str().is_some_and(|known| known.starts_with(&name)));
        env.push(json!(variable));
    }
    for (field, words) in [("Entrypoint", &overlay.entrypoint), ("Cmd", &overlay.command)] {
        if !words.is_empty() {
            fields.insert(field.to_owned(), json!(words));
        }
    }
    if let Some(folder) = &overlay.work_dir {
        fields.insert("WorkingDir".to_owned(), json!(folder));
    }
    let config = serde_json::to_vec(&config).ok()?;
    let mut layers = base["layers"].as_array()?.clone();
    let layer_descriptor = Descriptor::of(manifest::LAYER, &layer);
    layers.push(serde_json::to_value(&layer_descriptor).ok()?);
    let config_descriptor = Descriptor::of(manifest::CONFIG, &config);
    let children = [config_descriptor.digest.clone()].into_iter();
    let children =
        children.chain(layers.iter().filter_map(|layer| layer["digest"].as_str().map(str::to_owned)));
    let children: Vec<String> = children.collect();
    let document = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": manifest::MANIFEST,
        "config": config_descriptor,
        "layers": layers,
    }))
    .ok()?;
    let target = Descriptor::of(manifest::MANIFEST, &document);
    let blob = |descriptor: Descriptor, bytes: Vec<u8>, children| Blob {
        descriptor,
        content: Content::Bytes(bytes),
        children,
    };
    let blobs = vec![
        blob(layer_descriptor, layer, Vec::new()),
        blob(config_descriptor, config, Vec::new()),
        blob(target.clone(), document, children),
    ];
    Some(ArchivedImage { names: vec![normalize(tag)], target, blobs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_is_the_base_and_one_layer_more() {
        let base = json!({"layers": [{"mediaType": manifest::LAYER, "digest": "sha256:base", "size": 5}]});
        let config = json!({
            "rootfs": {"diff_ids": ["sha256:base"]},
            "config": {"Env": ["A=1", "B=2"], "Cmd": ["sh"], "User": "5"},
        });
        let overlay = Overlay { env: vec!["A=9".into()], command: vec!["run".into()], ..Overlay::default() };
        let image = compose(&base, config, b"layer".to_vec(), &overlay, "app:1").unwrap();
        assert_eq!(image.names, ["docker.io/library/app:1"]);
        let Content::Bytes(config) = &image.blobs[1].content else { panic!() };
        let config: Value = serde_json::from_slice(config).unwrap();
        assert_eq!(config["config"], json!({"Env": ["B=2", "A=9"], "Cmd": ["run"], "User": "5"}));
        assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
        assert_eq!(image.blobs[2].children.len(), 3, "config and both layers");
        assert!(compose(&json!({}), json!({}), Vec::new(), &Overlay::default(), "x").is_none());
    }
}
