//! The answers to each endpoint. What touches the disk for long, or waits for the collection, does so on threads for that.

mod blob;
mod list;
mod manifest;
mod upload;

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use minik8s_api::{Body, respond};

use crate::error::{ErrorCode, RegistryError, Result};
use crate::name::RepositoryName;
use crate::store::{Repository, Store};

pub use blob::blob;
pub use list::{catalog, tags};
pub use manifest::manifest;
pub use upload::{new_upload, upload};

const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// What a request is about.
#[derive(Clone)]
pub struct Asked {
    pub store: Arc<Store>,
    /// As the client calls it.
    pub named: RepositoryName,
    pub repository: Repository,
}

impl Asked {
    fn path(&self, rest: &str) -> String {
        format!("/v2/{}/{}/{rest}", self.named.namespace, self.named.name)
    }

    /// Runs on a thread that may wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store, &Repository) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Asked { store, repository, .. } = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&store, &repository)).await;
        done.map_err(std::io::Error::other)?
    }
}

/// An answer without a body.
fn empty(status: StatusCode, headers: &[(HeaderName, String)]) -> Response<Body> {
    let mut response = respond(status, "application/octet-stream", "");
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    add(&mut response, headers);
    response
}

fn add(response: &mut Response<Body>, headers: &[(HeaderName, String)]) {
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
}

fn not_served(method: &Method, served: &str) -> Result<Response<Body>> {
    let told = format!("{method} is not served here; {served} are");
    Err(RegistryError::new(ErrorCode::Unsupported, told))
}

/// A parameter of the query.
fn parameter(asked: &Parts, name: &str) -> Option<String> {
    let query = asked.uri.query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}
