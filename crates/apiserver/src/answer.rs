//! HTTP answers.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
pub use minik8s_api::Body;
use serde_json::Value;

use crate::codec;
use crate::error::{ApiError, Result};
use crate::form::Encoding;

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
pub fn object(code: u16, value: &Value, encoding: Encoding) -> Result<Response<Body>> {
    if encoding != Encoding::Yaml {
        return Ok(object_json(code, codec::to_json(value)?, encoding));
    }
    let text = serde_saphyr::to_string(value).map_err(ApiError::internal)?;
    Ok(bytes(code, "application/yaml", text))
}

/// An object whose JSON text is there.
pub fn object_json(code: u16, json: impl Into<Bytes>, encoding: Encoding) -> Response<Body> {
    let json = json.into();
    if encoding == Encoding::Protobuf
        && let Ok(body) = minik8s_protobuf::encode(&json)
    {
        return bytes(code, minik8s_protobuf::MEDIA_TYPE, body);
    }
    bytes(code, JSON, json)
}

pub fn error(error: &ApiError) -> Response<Body> {
    let mut response = json(error.code, &error.to_status());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// `Warning: 299 - "text"`: kubectl prints these.
///
/// Clients drop headers beyond a total size. So, as upstream: whole texts as long as all of them fit, else the
/// beginning of each until there is no more room.
pub fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    const TOTAL: usize = 4096;
    const SHORT: usize = 256;
    let length: usize = warnings.iter().map(|text| text.chars().count()).sum();
    let longest = if length <= TOTAL { TOTAL } else { SHORT };
    let mut room = TOTAL;
    for text in warnings {
        let shown: String = text.chars().take(longest.min(room)).collect();
        room -= shown.chars().count();
        if shown.is_empty() {
            return;
        }
        let quoted: String = shown
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .flat_map(|c| if matches!(c, '"' | '\\') { vec!['\\', c] } else { vec![c] })
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_cut_only_when_they_do_not_fit() {
        let check = |lengths: &[usize], expected: &[usize]| {
            let warnings: Vec<String> = lengths.iter().map(|length| "w".repeat(*length)).collect();
            let mut response = text(200, "");
            add_warnings(&mut response, &warnings);
            let got = response.headers().get_all(WARNING).iter();
            let got: Vec<usize> = got.map(|value| value.len() - "299 - \"\"".len()).collect();
            assert_eq!(got, expected, "{lengths:?}");
        };
        check(&[], &[]);
        check(&[4096], &[4096]);
        check(&[2000, 2000], &[2000, 2000]);
        check(&[4097, 10], &[256, 10]);
        check(&[300; 20], &[256; 16]);
    }

    #[test]
    fn warnings_are_quoted() {
        let mut response = text(200, "");
        add_warnings(&mut response, &["a \"b\" \\ c\nd".to_owned()]);
        assert_eq!(response.headers()[WARNING], r#"299 - "a \"b\" \\ c d""#);
    }
}
