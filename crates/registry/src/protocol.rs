//! OCI's distribution protocol, version 2: what clients such as skopeo, docker and containerd push and pull with.
//!
//! Requests come here once the API server has found that they may be made. Who is not known is told to show a name and a
//! password, of which the password is a token of the cluster; a bearer token is as good.

use std::sync::Arc;

use async_trait::async_trait;
use http::header::{HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use minik8s_api::{
    Body, Objects, Protocol, RequestBody, Requester, ResourceRef, ResourceRequest, Scope, respond,
};
use serde_json::json;

use crate::Shelf;
use crate::answer::{self, Asked};
use crate::endpoint::{Endpoint, ROOT};
use crate::error::{ErrorCode, RegistryError, Result};
use crate::name::RepositoryName;
use crate::store::{Repository, Store};

const CHALLENGE: &str = "Basic realm=\"minik8s: any name, and a token as password\", charset=\"UTF-8\"";

pub struct Distribution(pub Shelf);

#[async_trait]
impl Protocol for Distribution {
    fn root(&self) -> &'static str {
        ROOT
    }

    fn judged_as(&self, method: &Method, path: &str) -> Option<ResourceRequest> {
        Endpoint::parse(path).ok()?.right(method)
    }

    fn refuse(&self, status: StatusCode, message: &str) -> Response<Body> {
        let code = match status {
            StatusCode::UNAUTHORIZED => ErrorCode::Unauthorized,
            StatusCode::FORBIDDEN => ErrorCode::Denied,
            StatusCode::TOO_MANY_REQUESTS => ErrorCode::TooManyRequests,
            _ => ErrorCode::Unavailable,
        };
        refusal(status, &RegistryError::new(code, message))
    }

    async fn answer(
        &self,
        request: Request<RequestBody>,
        _requester: &Requester,
        cluster: &dyn Objects,
    ) -> Response<Body> {
        let mut response = match self.try_answer(request, cluster).await {
            Ok(response) => response,
            Err(error) => refusal(error.code.status(), &error),
        };
        let version = HeaderValue::from_static("registry/2.0");
        response.headers_mut().insert("docker-distribution-api-version", version);
        response
    }
}

impl Distribution {
    async fn try_answer(
        &self,
        request: Request<RequestBody>,
        cluster: &dyn Objects,
    ) -> Result<Response<Body>> {
        let starting = || RegistryError::new(ErrorCode::Unavailable, "the registry has not started");
        let store = self.0.get().ok_or_else(starting)?.clone();
        let (request, body) = request.into_parts();
        let endpoint = Endpoint::parse(request.uri.path())?;
        match endpoint {
            Endpoint::Base => Ok(respond(StatusCode::OK, "application/json", "{}")),
            Endpoint::Catalog => answer::catalog(&store, &request, namespaces(cluster).await?).await,
            Endpoint::Tags(named) => answer::tags(&asked(cluster, named, store).await?, &request).await,
            Endpoint::Manifest(named, reference) => {
                answer::manifest(&asked(cluster, named, store).await?, reference, &request, body).await
            }
            Endpoint::Blob(named, digest) => {
                answer::blob(&asked(cluster, named, store).await?, digest, &request).await
            }
            Endpoint::NewUpload(named) => {
                answer::new_upload(&asked(cluster, named, store).await?, &request, body).await
            }
            Endpoint::Upload(named, id) => {
                answer::upload(&asked(cluster, named, store).await?, id, &request, body).await
            }
        }
    }
}

async fn asked(cluster: &dyn Objects, named: RepositoryName, store: Arc<Store>) -> Result<Asked> {
    let namespace = namespace_uid(cluster, &named.namespace).await?;
    let repository = Repository { namespace, name: named.name.clone() };
    Ok(Asked { store, named, repository })
}

fn refusal(status: StatusCode, error: &RegistryError) -> Response<Body> {
    let body = json!({"errors": [{"code": error.code.name(), "message": error.message}]});
    let mut response = respond(status, "application/json", body.to_string());
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
    }
    response
}

/// The UID of a namespace that exists and is not about to go.
async fn namespace_uid(cluster: &dyn Objects, name: &str) -> Result<String> {
    let found = read_namespaces(cluster, Some(name)).await?;
    let alive = found.into_iter().find(|(found, _)| found == name);
    let unknown = || RegistryError::new(ErrorCode::NameUnknown, format!("there is no namespace {name}"));
    alive.map(|(_, uid)| uid).ok_or_else(unknown)
}

/// Names and UIDs.
async fn namespaces(cluster: &dyn Objects) -> Result<Vec<(String, String)>> {
    read_namespaces(cluster, None).await
}

pub async fn read_namespaces(cluster: &dyn Objects, name: Option<&str>) -> Result<Vec<(String, String)>> {
    let resource = ResourceRef { group: "", version: "v1", plural: "namespaces" };
    let scope = Scope { namespace: "", name, now: jiff::Timestamp::now() };
    let found = cluster.read(&resource, scope).await;
    let found = found.map_err(|error| RegistryError::new(ErrorCode::Unavailable, error.to_string()))?;
    let alive = found.iter().map(|one| &one["metadata"]).filter(|one| one["deletionTimestamp"].is_null());
    let named =
        alive.filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["uid"].as_str()?.to_owned())));
    Ok(named.collect())
}
