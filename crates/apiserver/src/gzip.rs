//! Large answers compressed for clients that ask for it, as upstream does: above 128 KiB, at the fastest level.
//!
//! An answer is compressed as it is made, so that a long list is never whole in memory. Watches are never
//! compressed: their events must not wait for each other. Clients inside of this process and the agents' own do
//! not ask, and nothing is spent on them.

use std::convert::Infallible;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, VARY};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full};

use crate::answer::Body;

/// Smaller answers travel as they are.
const MIN_BYTES: usize = 128 * 1024;

/// An answer that may be compressed on its way out.
#[derive(Clone, Copy)]
struct Offered;

/// The answer, to be compressed by [`compress`] if `accept_encoding` allows it.
pub fn offer(accept_encoding: &str, mut response: Response<Body>) -> Response<Body> {
    if response.status() == StatusCode::OK && accepts(accept_encoding) {
        response.extensions_mut().insert(Offered);
    }
    response
}

/// The answer, compressed if that was offered and it is large. To be called once everybody has seen what it says.
pub async fn compress(mut response: Response<Body>) -> Response<Body> {
    if response.extensions_mut().remove::<Offered>().is_none() {
        return response;
    }
    let (mut head, mut body) = response.into_parts();
    let (mut begun, mut size) = (Vec::<Bytes>::new(), 0);
    while size <= MIN_BYTES {
        let Some(Ok(frame)) = body.frame().await else {
            let whole: Bytes = match begun.as_mut_slice() {
                [only] => std::mem::take(only),
                parts => parts.concat::<u8>().into(),
            };
            return Response::from_parts(head, Full::new(whole).boxed_unsync());
        };
        if let Ok(data) = frame.into_data() {
            size += data.len();
            begun.push(data);
        }
    }
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.append(VARY, HeaderValue::from(ACCEPT_ENCODING));
    head.headers.remove(CONTENT_LENGTH);
    let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    Response::from_parts(head, Gzip { begun: begun.into_iter(), rest: body, encoder }.boxed_unsync())
}

fn accepts(accept_encoding: &str) -> bool {
    accept_encoding.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("gzip"))
}

/// A body on its way through the compressor.
struct Gzip {
    begun: std::vec::IntoIter<Bytes>,
    rest: Body,
    /// None once everything is said.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl http_body::Body for Gzip {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        loop {
            let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
            let next = match this.begun.next() {
                Some(data) => Some(data),
                None => ready!(Pin::new(&mut this.rest).poll_frame(context))
                    .map(|Ok(frame)| frame.into_data().unwrap_or_default()),
            };
            let written = match next {
                Some(data) => encoder.write_all(&data).map(|()| std::mem::take(encoder.get_mut())),
                None => this.encoder.take().map_or(Ok(Vec::new()), GzEncoder::finish),
            };
            match written {
                Ok(compressed) if compressed.is_empty() => {}
                Ok(compressed) => return Poll::Ready(Some(Ok(Frame::data(compressed.into())))),
                Err(error) => {
                    // The client sees that the end is missing.
                    tracing::error!(%error, "an answer cannot be compressed");
                    this.encoder = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::answer;

    #[test]
    fn encodings_that_clients_accept() {
        for (header, expected) in
            [("gzip", true), ("deflate, GZIP", true), ("", false), ("gzip;q=0", false), ("br", false)]
        {
            assert_eq!(accepts(header), expected, "{header}");
        }
    }

    #[tokio::test]
    async fn gzip_begins_above_the_threshold() {
        for (size, compressed) in
            [(0, false), (10, false), (MIN_BYTES, false), (MIN_BYTES + 1, true), (3 << 20, true)]
        {
            let text: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            let offered = offer("gzip", answer::bytes(200, "text/plain", text.clone()));
            let response = compress(offered).await;
            let is_compressed = response.headers().get(CONTENT_ENCODING).is_some();
            assert_eq!(is_compressed, compressed, "{size}");
            let mut got = response.into_body().collect().await.unwrap().to_bytes().to_vec();
            if compressed {
                assert!(got.len() < size / 10, "{size}: {}", got.len());
                let mut whole = Vec::new();
                flate2::read::GzDecoder::new(got.as_slice()).read_to_end(&mut whole).unwrap();
                got = whole;
            }
            assert!(got == text, "{size}");
        }
        let refused = compress(offer("gzip", answer::bytes(500, "text/plain", vec![b'x'; 1 << 20]))).await;
        assert!(refused.headers().get(CONTENT_ENCODING).is_none());
    }
}
