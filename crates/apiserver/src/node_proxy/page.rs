//! A backend's answer on its way to the client, its links moved if it is a page. When the backend breaks off, the
//! answer ends: its beginning is already on its way.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, LOCATION};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::links::{Place, Rewriter};
use crate::answer::Body;

type Polled = Poll<Option<Result<Frame<Bytes>, Infallible>>>;

/// As it comes.
pub struct Streamed(pub Incoming);

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        Pin::new(&mut self.0).poll_frame(cx).map(|frame| frame.and_then(|frame| frame.ok()).map(Ok))
    }
}

/// The answer for a client to whom the backend is below a path.
pub fn moved(mut response: Response<Incoming>, place: Place) -> Response<Body> {
    let headers = response.headers_mut();
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let location = location.and_then(|url| place.moved(url));
    if let Some(location) = location.and_then(|url| HeaderValue::try_from(url).ok()) {
        headers.insert(LOCATION, location);
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_html = kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/html");
    if !is_html || headers.contains_key(CONTENT_ENCODING) || response.body().is_end_stream() {
        return response.map(|body| Streamed(body).boxed_unsync());
    }
    response.headers_mut().remove(CONTENT_LENGTH);
    response.map(|body| Page { body: Streamed(body), rewriter: Some(Rewriter::new(place)) }.boxed_unsync())
}

struct Page {
    body: Streamed,
    /// None when all has been said.
    rewriter: Option<Rewriter>,
}

impl http_body::Body for Page {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        let page = &mut *self;
        loop {
            let Some(rewriter) = &mut page.rewriter else { return Poll::Ready(None) };
            let out = match ready!(Pin::new(&mut page.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => rewriter.push(&data),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                None => {
                    let rest = rewriter.finish();
                    page.rewriter = None;
                    rest
                }
            };
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
        }
    }
}
