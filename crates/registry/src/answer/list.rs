//! Lists of repositories and tags, in pages if the client wants them so.

use std::sync::Arc;

use http::header::LINK;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use minik8s_api::{Body, respond};
use serde_json::json;

use super::{Asked, add, not_served, parameter};
use crate::error::{ErrorCode, RegistryError, Result};
use crate::store::Store;

/// The names after `last`, at most `n`, and whether there are more.
fn page(mut names: Vec<String>, request: &Parts) -> Result<(Vec<String>, bool)> {
    let bad = || RegistryError::new(ErrorCode::Unsupported, "n is not a number");
    let most = parameter(request, "n").map(|n| n.parse::<usize>().map_err(|_| bad())).transpose()?;
    if let Some(last) = parameter(request, "last") {
        names.retain(|name| *name > last);
    }
    let is_cut = most.is_some_and(|most| names.len() > most);
    names.truncate(most.unwrap_or(usize::MAX));
    Ok((names, is_cut))
}

fn answer(
    request: &Parts,
    (names, is_cut): (Vec<String>, bool),
    body: impl FnOnce(&[String]) -> serde_json::Value,
) -> Response<Body> {
    let mut response = respond(StatusCode::OK, "application/json", body(&names).to_string());
    if let (true, Some(last)) = (is_cut, names.last()) {
        let query: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("n", &names.len().to_string())
            .append_pair("last", last)
            .finish();
        add(&mut response, &[(LINK, format!("<{}?{query}>; rel=\"next\"", request.uri.path()))]);
    }
    response
}

pub async fn tags(asked: &Asked, request: &Parts) -> Result<Response<Body>> {
    if request.method != Method::GET {
        return not_served(&request.method, "GET alone");
    }
    let tags = asked.blocking(|store, repository| {
        let known = store.repositories(&repository.namespace)?.contains(repository);
        let unknown = || RegistryError::new(ErrorCode::NameUnknown, "there is no such repository");
        known.then_some(()).ok_or_else(unknown)?;
        store.tags(repository)
    });
    let names = tags.await?.into_iter().map(|tag| tag.name).collect();
    let name = format!("{}/{}", asked.named.namespace, asked.named.name);
    let shown = page(names, request)?;
    Ok(answer(request, shown, |tags| json!({"name": name, "tags": tags})))
}

/// Of all namespaces, which takes the right to list in all of them.
pub async fn catalog(
    store: &Arc<Store>,
    request: &Parts,
    namespaces: Vec<(String, String)>,
) -> Result<Response<Body>> {
    if request.method != Method::GET {
        return not_served(&request.method, "GET alone");
    }
    let store = store.clone();
    let listing = tokio::task::spawn_blocking(move || {
        let mut names = Vec::new();
        for (namespace, uid) in &namespaces {
            names.extend(store.repositories(uid)?.into_iter().map(|one| format!("{namespace}/{}", one.name)));
        }
        names.sort();
        Ok::<_, RegistryError>(names)
    });
    let shown = page(listing.await.map_err(std::io::Error::other)??, request)?;
    Ok(answer(request, shown, |repositories| json!({"repositories": repositories})))
}
