//! HTTP answers.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::codec;
use crate::error::{ApiError, Result};

/// Any body: whole, streamed, or an upgraded connection's empty one.
pub type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

pub const JSON: &str = "application/json";

pub fn bytes(code: u16, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    stream(code, content_type, Full::new(body.into()))
}

pub fn stream(
    code: u16,
    content_type: &str,
    body: impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
) -> Response<Body> {
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        headers.insert(CONTENT_TYPE, content_type);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub fn text(code: u16, text: impl Into<String>) -> Response<Body> {
    bytes(code, "text/plain; charset=utf-8", text.into())
}

pub fn json(code: u16, value: &Value) -> Response<Body> {
    bytes(code, JSON, codec::to_json(value).unwrap_or_default())
}

/// An object in the encoding that the client accepts.
pub fn object(code: u16, value: &Value, yaml: bool) -> Result<Response<Body>> {
    if !yaml {
        return Ok(bytes(code, JSON, codec::to_json(value)?));
    }
    let text = serde_saphyr::to_string(value).map_err(ApiError::internal)?;
    Ok(bytes(code, "application/yaml", text))
}

pub fn error(error: &ApiError) -> Response<Body> {
    let mut response = json(error.code, &error.to_status());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// `Warning: 299 - "text"`: kubectl prints these.
pub fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    /// Go clients drop headers beyond a total size; the first ones say enough.
    const MAX: usize = 16;
    for text in warnings.iter().take(MAX) {
        let quoted: String = text
            .chars()
            .take(500)
            .map(|c| if c.is_control() { ' ' } else { c })
            .flat_map(|c| if matches!(c, '"' | '\\') { vec!['\\', c] } else { vec![c] })
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}
