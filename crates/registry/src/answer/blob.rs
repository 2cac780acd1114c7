//! Blobs, whole or in part, read from the disk as the client takes them.

use std::convert::Infallible;
use std::io::SeekFrom;

use futures::StreamExt;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, HeaderName, RANGE};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use minik8s_api::Body;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::{Asked, DIGEST, add, empty, not_served};
use crate::digest::Digest;
use crate::error::{ErrorCode, RegistryError, Result};

const PIECE: usize = 256 << 10;

pub async fn blob(asked: &Asked, digest: Digest, request: &Parts) -> Result<Response<Body>> {
    if !matches!(request.method, Method::GET | Method::HEAD) {
        // A blob goes by itself once no manifest names it.
        return not_served(&request.method, "GET and HEAD");
    }
    let wanted = digest.clone();
    let (path, size) = asked.blocking(move |store, repository| store.blob(repository, &wanted)).await?;
    let range = request.headers.get(RANGE).and_then(|range| range.to_str().ok());
    let (from, length) = part(range, size)?;
    let mut headers: Vec<(HeaderName, String)> = vec![
        (CONTENT_LENGTH, length.to_string()),
        (DIGEST, digest.to_string()),
        (ACCEPT_RANGES, "bytes".to_owned()),
    ];
    let mut status = StatusCode::OK;
    if range.is_some() {
        status = StatusCode::PARTIAL_CONTENT;
        headers.push((CONTENT_RANGE, format!("bytes {from}-{}/{size}", (from + length).saturating_sub(1))));
    }
    if request.method == Method::HEAD {
        return Ok(empty(status, &headers));
    }
    let mut file = tokio::fs::File::open(&path).await?;
    file.seek(SeekFrom::Start(from)).await?;
    // A disk that fails in the middle ends the body early, which the client sees by its length.
    let pieces = ReaderStream::with_capacity(file.take(length), PIECE)
        .take_while(|piece| std::future::ready(piece.is_ok()))
        .filter_map(|piece| std::future::ready(piece.ok()))
        .map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    let mut response = Response::new(StreamBody::new(pieces).boxed_unsync());
    *response.status_mut() = status;
    add(&mut response, &[(http::header::CONTENT_TYPE, "application/octet-stream".to_owned())]);
    add(&mut response, &headers);
    Ok(response)
}

/// Where to begin, and how many bytes. One range is served; whoever asks for several gets an error, not something else.
fn part(range: Option<&str>, size: u64) -> Result<(u64, u64)> {
    let Some(range) = range else { return Ok((0, size)) };
    let parsed = || {
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        let from: u64 = from.parse().ok()?;
        let to: u64 = if to.is_empty() { size.checked_sub(1)? } else { to.parse().ok()? };
        let to = to.min(size.checked_sub(1)?);
        (from <= to).then(|| (from, to - from + 1))
    };
    let told =
        || RegistryError::new(ErrorCode::RangeInvalid, format!("{range:?} of {size} bytes cannot be given"));
    parsed().ok_or_else(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_one_part_of_the_blob() {
        let check = |range: &str, expected: Option<(u64, u64)>| {
            assert_eq!(part(Some(range), 10).ok(), expected, "{range}");
        };
        assert_eq!(part(None, 10), Ok((0, 10)));
        check("bytes=0-", Some((0, 10)));
        check("bytes=3-5", Some((3, 3)));
        check("bytes=9-99", Some((9, 1)));
        for bad in ["bytes=10-", "bytes=5-3", "bytes=-3", "bytes=0-1,3-4", "lines=1-2", ""] {
            check(bad, None);
        }
        assert!(part(Some("bytes=0-"), 0).is_err());
    }
}
