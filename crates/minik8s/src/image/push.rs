//! `minik8s image push`: an image of this node's store to the registry in the server, as the user of the kubeconfig.
//!
//! Blobs that the repository holds are not sent again. Others go in chunks, so that none has to fit into memory.

use anyhow::{Context, bail};
use kube::Client;
use minik8s_cli::Progress;
use minik8s_kubelet::image::{ImageStore, normalize};
use minik8s_meta::image_repository::REGISTRY_HOST;
use minik8s_registry::client::{MANIFEST, Repository};
use serde_json::Value;

use crate::output;

/// Where in the registry an image goes.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    namespace: String,
    name: String,
    tag: String,
}

pub async fn push(
    store: &ImageStore,
    client: &Client,
    namespace: &str,
    image: &str,
    to: Option<&str>,
) -> anyhow::Result<()> {
    let target = Target::of(image, to, namespace)?;
    let digest = store.manifest_digest(image).await?;
    let manifest = store.read_blob(&digest).await?;
    let document: Value = serde_json::from_slice(&manifest).context("the image's manifest cannot be read")?;
    let registry = Repository::new(client, &target.namespace, &target.name);
    let line = Progress::begin(format_args!("pushing {image}"));
    let layers = document["layers"].as_array().into_iter().flatten();
    for blob in layers.chain([&document["config"]]) {
        let (Some(digest), Some(size)) = (blob["digest"].as_str(), blob["size"].as_i64()) else {
            bail!("{image} names a blob without a digest or a size");
        };
        let read = async |offset: i64, length: i64| {
            line.say(format_args!("pushing {digest}: {offset} of {size} bytes"));
            anyhow::Ok(store.read_part(digest, offset, length).await?)
        };
        registry.push_blob(digest, size, read).await.with_context(|| format!("cannot push {digest}"))?;
    }
    let media_type = document["mediaType"].as_str().unwrap_or(MANIFEST);
    let pushed = registry.push_manifest(&target.tag, manifest, media_type).await;
    pushed.context("cannot push the manifest")?;
    drop(line);
    output::line(format_args!("pushed {REGISTRY_HOST}/{}/{}:{}", target.namespace, target.name, target.tag))?;
    Ok(())
}

impl Target {
    /// As `--to` says, or as the image is called: in the registry already, or by the last part of its name.
    fn of(image: &str, to: Option<&str>, namespace: &str) -> anyhow::Result<Self> {
        let name = normalize(image);
        let given = match (to, name.strip_prefix(&format!("{REGISTRY_HOST}/"))) {
            (Some(to), _) => to.trim_start_matches(REGISTRY_HOST).trim_start_matches('/').to_owned(),
            (None, Some(path)) => path.to_owned(),
            (None, None) => format!("{namespace}/{}", name.rsplit('/').next().unwrap_or_default()),
        };
        if given.contains('@') {
            bail!("{given}: an image is pushed under a tag, not under a digest");
        }
        let (path, tag) = given.rsplit_once(':').unwrap_or((&given, "latest"));
        match path.split('/').collect::<Vec<_>>().as_slice() {
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(Target {
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
                tag: tag.to_owned(),
            }),
            _ => bail!("{path}: repositories of the registry are called NAMESPACE/NAME; give --to"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_what_the_image_is_called() {
        let check = |image: &str, to: Option<&str>, expected: Option<&str>| {
            let target = Target::of(image, to, "shop").ok();
            let shown = target.map(|target| format!("{}/{}:{}", target.namespace, target.name, target.tag));
            assert_eq!(shown.as_deref(), expected, "{image} {to:?}");
        };
        check("app", None, Some("shop/app:latest"));
        check("app:1", None, Some("shop/app:1"));
        check("quay.io/a/b/app:1", None, Some("shop/app:1"));
        check("registry.minik8s.local/team/web:2", None, Some("team/web:2"));
        check("app:1", Some("team/web"), Some("team/web:latest"));
        check("app:1", Some("registry.minik8s.local/team/web:3"), Some("team/web:3"));
        check("app:1", Some("web"), None);
        check("app:1", Some("a/b/c"), None);
        check("app:1", Some("a/b@sha256:00"), None);
    }
}
