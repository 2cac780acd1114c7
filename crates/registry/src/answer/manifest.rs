//! Manifests: read, kept, deleted.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use minik8s_api::{Body, RequestBody, respond};

use super::upload::next_piece;
use super::{Asked, DIGEST, add, empty, not_served};
use crate::error::{ErrorCode, RegistryError, Result};
use crate::manifest::LARGEST;
use crate::name::Reference;

pub async fn manifest(
    asked: &Asked,
    reference: Reference,
    request: &Parts,
    body: RequestBody,
) -> Result<Response<Body>> {
    match request.method {
        Method::GET | Method::HEAD => {
            let is_head = request.method == Method::HEAD;
            let read = asked.blocking(move |store, repository| store.manifest(repository, &reference));
            let stored = read.await?;
            let headers = [
                (CONTENT_TYPE, stored.media_type.clone()),
                (CONTENT_LENGTH, stored.bytes.len().to_string()),
                (DIGEST, stored.digest.to_string()),
            ];
            if is_head {
                return Ok(empty(StatusCode::OK, &headers));
            }
            let mut response = respond(StatusCode::OK, &stored.media_type, stored.bytes);
            add(&mut response, &headers);
            Ok(response)
        }
        Method::PUT => put(asked, reference, request, body).await,
        Method::DELETE => {
            let delete =
                asked.blocking(move |store, repository| store.delete_manifest(repository, &reference));
            delete.await?;
            Ok(empty(StatusCode::ACCEPTED, &[]))
        }
        _ => not_served(&request.method, "GET, HEAD, PUT and DELETE"),
    }
}

async fn put(
    asked: &Asked,
    reference: Reference,
    request: &Parts,
    body: RequestBody,
) -> Result<Response<Body>> {
    let content_type = request.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let (mut bytes, mut body) = (Vec::new(), body);
    while let Some(piece) = next_piece(asked.store.idle(), &mut body).await? {
        if bytes.len() + piece.len() > LARGEST {
            let told = format!("a manifest has at most {LARGEST} bytes");
            return Err(RegistryError::new(ErrorCode::SizeInvalid, told));
        }
        bytes.extend_from_slice(&piece);
    }
    let put = asked
        .blocking(move |store, repository| store.put_manifest(repository, &reference, &bytes, &content_type));
    let digest = put.await?;
    let location = asked.path(&format!("manifests/{digest}"));
    Ok(empty(StatusCode::CREATED, &[(LOCATION, location), (DIGEST, digest.to_string())]))
}
