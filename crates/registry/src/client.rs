//! The other side of the protocol: pushing to and deleting from a repository, as the user of a client of the API or on
//! behalf of another.
//!
//! It is what commands and other features of the server use, over the connection that they have anyway. Nothing here knows
//! what images are made of.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use minik8s_api::Requester;
use serde_json::Value;
use thiserror::Error;

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// What is read, and sent, at once.
const CHUNK: i64 = 8 << 20;

#[derive(Debug, Error)]
pub enum PushError {
    #[error("{message} ({status})")]
    Refused { status: StatusCode, message: String },
    #[error("the server answers {0}; is its feature `registry` switched off?")]
    NoRegistry(StatusCode),
    #[error("the registry does not say where to go on")]
    NoLocation,
    #[error("there is less of it than its manifest says")]
    TooShort,
    #[error("the registry does not answer")]
    Request(#[from] kube::Error),
    #[error("the request cannot be made")]
    Http(#[from] http::Error),
}

/// A repository of the registry in the server.
pub struct Repository<'a> {
    client: &'a Client,
    path: String,
    requester: Option<&'a Requester>,
}

/// A blob on its way.
pub struct BlobUpload<'a> {
    repository: &'a Repository<'a>,
    place: String,
}

impl<'a> Repository<'a> {
    pub fn new(client: &'a Client, namespace: &str, name: &str) -> Self {
        Repository { client, path: format!("/v2/{namespace}/{name}"), requester: None }
    }

    /// With the rights of somebody else, as whom the client may act.
    pub fn acting_as(self, requester: Option<&'a Requester>) -> Self {
        Repository { requester, ..self }
    }

    /// Sends a blob unless it is there; `read` gives so many bytes from an offset on.
    pub async fn push_blob<E: From<PushError>>(
        &self,
        digest: &str,
        size: i64,
        read: impl AsyncFn(i64, i64) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        if self.has_blob(digest).await? {
            return Ok(());
        }
        let mut upload = self.upload().await?;
        let mut done = 0;
        while done < size {
            let part = read(done, CHUNK.min(size - done)).await?;
            if part.is_empty() {
                return Err(PushError::TooShort.into());
            }
            done += i64::try_from(part.len()).unwrap_or(i64::MAX);
            upload.append(part).await?;
        }
        Ok(upload.finish(digest).await?)
    }

    pub async fn has_blob(&self, digest: &str) -> Result<bool, PushError> {
        let path = format!("{}/blobs/{digest}", self.path);
        Ok(self.send(Method::HEAD, &path, Vec::new(), None).await?.status() == StatusCode::OK)
    }

    /// Begins a blob whose digest is known at its end.
    pub async fn upload(&self) -> Result<BlobUpload<'_>, PushError> {
        let path = format!("{}/blobs/uploads/", self.path);
        let begun = self.send(Method::POST, &path, Vec::new(), None).await?;
        let place = location(&expect(begun, StatusCode::ACCEPTED).await?)?;
        Ok(BlobUpload { repository: self, place })
    }

    pub async fn push_manifest(
        &self,
        tag: &str,
        manifest: Vec<u8>,
        media_type: &str,
    ) -> Result<(), PushError> {
        let path = format!("{}/manifests/{tag}", self.path);
        let answer = self.send(Method::PUT, &path, manifest, Some(media_type)).await?;
        expect(answer, StatusCode::CREATED).await.map(drop)
    }

    pub async fn has_manifest(&self, digest: &str) -> Result<bool, PushError> {
        let path = format!("{}/manifests/{digest}", self.path);
        Ok(self.send(Method::HEAD, &path, Vec::new(), None).await?.status() == StatusCode::OK)
    }

    pub async fn manifest(&self, digest: &str) -> Result<Vec<u8>, PushError> {
        self.get(&format!("{}/manifests/{digest}", self.path)).await
    }

    /// A blob that fits into memory.
    pub async fn blob(&self, digest: &str) -> Result<Vec<u8>, PushError> {
        self.get(&format!("{}/blobs/{digest}", self.path)).await
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>, PushError> {
        let answer = expect(self.send(Method::GET, path, Vec::new(), None).await?, StatusCode::OK).await?;
        Ok(answer.into_body().collect().await?.to_bytes().to_vec())
    }

    /// With all tags that stand for it.
    pub async fn delete_manifest(&self, digest: &str) -> Result<(), PushError> {
        let path = format!("{}/manifests/{digest}", self.path);
        let answer = self.send(Method::DELETE, &path, Vec::new(), None).await?;
        expect(answer, StatusCode::ACCEPTED).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        content_type: Option<&str>,
    ) -> Result<Response<Body>, PushError> {
        let mut request = Request::builder().method(method).uri(path).header(CONTENT_LENGTH, body.len());
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some(Requester { name, groups }) = self.requester {
            request = request.header("impersonate-user", name);
            for group in groups {
                request = request.header("impersonate-group", group);
            }
        }
        Ok(self.client.send(request.body(Body::from(body))?).await?)
    }
}

impl BlobUpload<'_> {
    pub async fn append(&mut self, bytes: Vec<u8>) -> Result<(), PushError> {
        let kind = Some("application/octet-stream");
        let sent = self.repository.send(Method::PATCH, &self.place, bytes, kind).await?;
        self.place = location(&expect(sent, StatusCode::ACCEPTED).await?)?;
        Ok(())
    }

    pub async fn finish(self, digest: &str) -> Result<(), PushError> {
        let path = format!("{}?digest={digest}", self.place);
        let ended = self.repository.send(Method::PUT, &path, Vec::new(), None).await?;
        expect(ended, StatusCode::CREATED).await.map(drop)
    }

    /// Gives up what was sent.
    pub async fn cancel(self) {
        // Else it is given up after a while without a byte.
        let _ = self.repository.send(Method::DELETE, &self.place, Vec::new(), None).await;
    }
}

fn location(response: &Response<Body>) -> Result<String, PushError> {
    let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
    Ok(place.ok_or(PushError::NoLocation)?.to_owned())
}

/// The answer, or what the registry said instead.
async fn expect(response: Response<Body>, wanted: StatusCode) -> Result<Response<Body>, PushError> {
    let status = response.status();
    if status == wanted {
        return Ok(response);
    }
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    match told["errors"][0]["message"].as_str() {
        Some(message) => Err(PushError::Refused { status, message: message.to_owned() }),
        None => Err(PushError::NoRegistry(status)),
    }
}
