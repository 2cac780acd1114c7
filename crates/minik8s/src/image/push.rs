//! `minik8s image push`: an image of this node's store to the registry in the server, as the user of the kubeconfig.
//!
//! Blobs that the repository holds are not sent again. Others go in chunks, so that none has to fit into memory.

use anyhow::{Context, bail};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use minik8s_cli::Progress;
use minik8s_kubelet::image::{ImageStore, normalize};
use minik8s_meta::image_repository::REGISTRY_HOST;
use serde_json::Value;

use crate::output;

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// What is read, and sent, at once.
const CHUNK: i64 = 8 << 20;

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
            Ok(store.read_part(digest, offset, length).await?)
        };
        registry.push_blob(digest, size, read).await.with_context(|| format!("cannot push {digest}"))?;
    }
    let media_type = document["mediaType"].as_str().unwrap_or(MANIFEST);
    registry.push_manifest(&target.tag, manifest, media_type).await?;
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

/// A repository of the registry in the server.
pub struct Repository<'a> {
    client: &'a Client,
    path: String,
}

impl<'a> Repository<'a> {
    pub fn new(client: &'a Client, namespace: &str, name: &str) -> Self {
        Repository { client, path: format!("/v2/{namespace}/{name}") }
    }

    /// Sends a blob unless it is there; `read` gives so many bytes from an offset on.
    pub async fn push_blob(
        &self,
        digest: &str,
        size: i64,
        read: impl AsyncFn(i64, i64) -> anyhow::Result<Vec<u8>>,
    ) -> anyhow::Result<()> {
        let known =
            self.send(Method::HEAD, &format!("{}/blobs/{digest}", self.path), Vec::new(), None).await?;
        if known.status() == StatusCode::OK {
            return Ok(());
        }
        let begun =
            self.send(Method::POST, &format!("{}/blobs/uploads/", self.path), Vec::new(), None).await?;
        let mut place = location(expect(begun, StatusCode::ACCEPTED).await?)?;
        let mut done = 0;
        while done < size {
            let part = read(done, CHUNK.min(size - done)).await?;
            if part.is_empty() {
                bail!("there is less of it than its manifest says");
            }
            done += i64::try_from(part.len())?;
            let sent = self.send(Method::PATCH, &place, part, Some("application/octet-stream")).await?;
            place = location(expect(sent, StatusCode::ACCEPTED).await?)?;
        }
        let ended = self.send(Method::PUT, &format!("{place}?digest={digest}"), Vec::new(), None).await?;
        expect(ended, StatusCode::CREATED).await.map(drop)
    }

    pub async fn push_manifest(&self, tag: &str, manifest: Vec<u8>, media_type: &str) -> anyhow::Result<()> {
        let path = format!("{}/manifests/{tag}", self.path);
        let answer = self.send(Method::PUT, &path, manifest, Some(media_type)).await?;
        expect(answer, StatusCode::CREATED).await.map(drop).context("cannot push the manifest")
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        content_type: Option<&str>,
    ) -> anyhow::Result<Response<Body>> {
        let mut request = Request::builder().method(method).uri(path).header(CONTENT_LENGTH, body.len());
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        Ok(self.client.send(request.body(Body::from(body))?).await?)
    }
}

fn location(response: Response<Body>) -> anyhow::Result<String> {
    let place = response.headers().get(LOCATION).context("the registry does not say where to go on")?;
    Ok(place.to_str()?.to_owned())
}

/// The answer, or what the registry said instead.
async fn expect(response: Response<Body>, wanted: StatusCode) -> anyhow::Result<Response<Body>> {
    let status = response.status();
    if status == wanted {
        return Ok(response);
    }
    let body = response.into_body().collect().await?.to_bytes();
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    match told["errors"][0]["message"].as_str() {
        Some(message) => bail!("{message} ({status})"),
        None => bail!("the server answers {status}; is its feature `registry` switched off?"),
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
