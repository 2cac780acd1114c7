//! Uploads of blobs: in one request, in one body after the first request, or in chunks.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_RANGE, HeaderName, LOCATION, RANGE};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use minik8s_api::{Body, RequestBody};
use uuid::Uuid;

use super::{Asked, DIGEST, empty, not_served, parameter};
use crate::digest::Digest;
use crate::error::{ErrorCode, RegistryError, Result};
use crate::store::Upload;

const ID: HeaderName = HeaderName::from_static("docker-upload-uuid");

/// A blob of another repository is not taken over (`mount`): whether the client may read it there was not asked. It begins
/// an upload instead, as the protocol allows.
pub async fn new_upload(asked: &Asked, request: &Parts, body: RequestBody) -> Result<Response<Body>> {
    if request.method != Method::POST {
        return not_served(&request.method, "POST alone");
    }
    let digest = parameter(request, "digest").map(|digest| digest.parse::<Digest>()).transpose()?;
    let mut upload = asked.store.begin(&asked.repository).await?;
    let Some(digest) = digest else { return Ok(accepted(asked, &upload)) };
    let id = upload.id;
    let received = receive(&mut upload, asked, body).await;
    match received {
        Ok(()) => finish(asked, upload, &digest).await,
        Err(error) => {
            drop(upload);
            // Its client does not know of it.
            asked.store.cancel(&asked.repository, id)?;
            Err(error)
        }
    }
}

pub async fn upload(asked: &Asked, id: Uuid, request: &Parts, body: RequestBody) -> Result<Response<Body>> {
    match request.method {
        Method::GET => {
            let received = asked.store.received(&asked.repository, id)?;
            Ok(empty(StatusCode::NO_CONTENT, &progress(asked, id, received)))
        }
        Method::DELETE => {
            asked.store.cancel(&asked.repository, id)?;
            Ok(empty(StatusCode::NO_CONTENT, &[]))
        }
        Method::PATCH => {
            let mut upload = asked.store.resume(&asked.repository, id)?;
            check_begin(&upload, request)?;
            receive(&mut upload, asked, body).await?;
            Ok(accepted(asked, &upload))
        }
        Method::PUT => {
            let missing =
                || RegistryError::new(ErrorCode::DigestInvalid, "the digest is missing in the query");
            let digest: Digest = parameter(request, "digest").ok_or_else(missing)?.parse()?;
            let mut upload = asked.store.resume(&asked.repository, id)?;
            check_begin(&upload, request)?;
            receive(&mut upload, asked, body).await?;
            finish(asked, upload, &digest).await
        }
        _ => not_served(&request.method, "GET, PATCH, PUT and DELETE"),
    }
}

async fn finish(asked: &Asked, upload: Upload, digest: &Digest) -> Result<Response<Body>> {
    upload.finish(digest).await?;
    let location = asked.path(&format!("blobs/{digest}"));
    Ok(empty(StatusCode::CREATED, &[(LOCATION, location), (DIGEST, digest.to_string())]))
}

fn accepted(asked: &Asked, upload: &Upload) -> Response<Body> {
    empty(StatusCode::ACCEPTED, &progress(asked, upload.id, upload.size()))
}

fn progress(asked: &Asked, id: Uuid, received: u64) -> [(HeaderName, String); 3] {
    let location = asked.path(&format!("blobs/uploads/{id}"));
    // The last byte that has come, as the protocol has it; nothing is told apart from one byte by nobody.
    let range = format!("0-{}", received.saturating_sub(1));
    [(LOCATION, location), (RANGE, range), (ID, id.to_string())]
}

/// A chunk that says where it begins begins where the last one ended.
fn check_begin(upload: &Upload, request: &Parts) -> Result<()> {
    let Some(range) = request.headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok()) else {
        return Ok(());
    };
    let begin =
        range.trim_start_matches("bytes ").split('-').next().and_then(|from| from.parse::<u64>().ok());
    if begin == Some(upload.size()) {
        return Ok(());
    }
    let told = format!("the chunk {range:?} does not begin at {}", upload.size());
    Err(RegistryError::new(ErrorCode::RangeInvalid, told))
}

async fn receive(upload: &mut Upload, asked: &Asked, mut body: RequestBody) -> Result<()> {
    while let Some(piece) = next_piece(asked.store.idle(), &mut body).await? {
        upload.append(&piece).await?;
    }
    Ok(())
}

/// What comes next of a body; gives up on a client that falls silent.
pub async fn next_piece(idle: Duration, body: &mut RequestBody) -> Result<Option<Bytes>> {
    let broken = |told: String| RegistryError::new(ErrorCode::UploadInvalid, told);
    loop {
        let frame = tokio::time::timeout(idle, body.frame()).await;
        let Some(frame) = frame.map_err(|_| broken("the body has stopped coming".to_owned()))? else {
            return Ok(None);
        };
        let frame = frame.map_err(|error| broken(format!("the body ended early: {error}")))?;
        // Trailers say nothing here.
        if let Ok(piece) = frame.into_data() {
            return Ok(Some(piece));
        }
    }
}
