//! The page's files: compressed when they were built, public, and the same for everyone.
//!
//! Every address below `/ui/` that is no file is the page itself: it reads the rest of the address. Nothing here depends
//! on who asks.

use std::io::Read;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Response, StatusCode};

/// Where the dashboard is.
pub const PATH: &str = "/ui/";

/// One file, as `build.rs` found it.
pub struct File {
    path: &'static str,
    gzip: &'static [u8],
    brotli: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Scripts and styles are files of ours; strings never become markup (`trusted-types` names Svelte's own templates).
/// Style attributes are set by the terminal, for colours.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types svelte-trusted-html";

/// Files have a hash of their content in their name.
const FOREVER: &str = "public, max-age=31536000, immutable";

const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>minik8s</title>\
    <h1>This minik8s was built without its dashboard</h1>\
    <p>The dashboard is built with Node. On the machine where you build minik8s: install <code>nodejs</code> and \
    <code>npm</code> (<code>scripts/setup</code> does), run <code>make build</code>, and start the new program.</p>\
    <p>Everything else works as always, <code>kubectl</code> too.</p>";

/// Whether the page is in this program.
pub fn is_built() -> bool {
    !FILES.is_empty()
}

/// Answers GET and HEAD below [`PATH`].
pub fn answer(path: &str, headers: &HeaderMap) -> Response<Bytes> {
    if !is_built() {
        return page(StatusCode::NOT_FOUND, Bytes::from_static(NOT_BUILT.as_bytes()));
    }
    let name = path.strip_prefix(PATH).unwrap_or_default();
    let is_asset = name.starts_with("assets/");
    let name = if is_asset { name } else { "index.html" };
    let Some(file) = FILES.iter().find(|file| file.path == name) else {
        return page(
            StatusCode::NOT_FOUND,
            Bytes::from_static(b"<!doctype html><title>404</title>no such file"),
        );
    };
    let etag = format!("\"{:x}\"", fingerprint(file.gzip));
    let cache = if is_asset { FOREVER } else { "no-cache" };
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        return with_cache(Response::new(Bytes::new()), StatusCode::NOT_MODIFIED, cache, &etag);
    }
    let (encoding, body) = encoded(file, headers);
    let mut response = with_cache(Response::new(body), StatusCode::OK, cache, &etag);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(file.path)));
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

fn with_cache(
    mut response: Response<Bytes>,
    status: StatusCode,
    cache: &'static str,
    etag: &str,
) -> Response<Bytes> {
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(ETAG, etag);
    }
    protect(headers);
    response
}

fn page(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    protect(headers);
    response
}

fn protect(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    headers.insert(opener, HeaderValue::from_static("same-origin"));
}

/// The smallest form that the client understands.
fn encoded(file: &File, headers: &HeaderMap) -> (Option<&'static str>, Bytes) {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let accepts = |coding: &str| {
        accepted.split(',').any(|offer| {
            let (name, weight) = offer.split_once(';').unwrap_or((offer, ""));
            name.trim().eq_ignore_ascii_case(coding) && !matches!(weight.trim(), "q=0" | "q=0.0")
        })
    };
    if accepts("br") {
        return (Some("br"), Bytes::from_static(file.brotli));
    }
    if accepts("gzip") {
        return (Some("gzip"), Bytes::from_static(file.gzip));
    }
    let mut plain = Vec::new();
    // It was compressed by our own build.
    let _ = GzDecoder::new(file.gzip).read_to_end(&mut plain);
    (None, plain.into())
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}

/// FNV-1a: tells versions of a file apart, and protects nothing.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &str, headers: &[(HeaderName, &str)]) -> Response<Bytes> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        answer(path, &headers)
    }

    #[test]
    fn every_answer_has_the_policy() {
        for path in ["/ui/", "/ui/list?kind=pods", "/ui/assets/none.js"] {
            let response = ask(path, &[]);
            let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(
                policy.contains("default-src 'none'") && !policy.contains("script-src 'unsafe"),
                "{path}"
            );
            assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        }
    }

    #[test]
    fn page_without_assets_says_how_to_get_them() {
        let response = ask("/ui/", &[]);
        if is_built() {
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()[CACHE_CONTROL], "no-cache");
        } else {
            assert_eq!(response.status(), 404);
            assert!(std::str::from_utf8(response.body()).unwrap().contains("make build"));
        }
    }

    #[test]
    fn files_are_compressed_as_asked_and_kept_for_ever() {
        for file in FILES.iter().filter(|file| file.path.starts_with("assets/")) {
            let path = format!("/ui/{}", file.path);
            let plain = ask(&path, &[]);
            assert_eq!(plain.headers()[CACHE_CONTROL], FOREVER);
            assert!(!plain.headers().contains_key(CONTENT_ENCODING));
            assert!(plain.body().len() >= file.brotli.len() || plain.body().len() < 200, "{path}");
            for (accepted, coding) in [("gzip, br", "br"), ("gzip, br;q=0", "gzip"), ("gzip", "gzip")] {
                assert_eq!(ask(&path, &[(ACCEPT_ENCODING, accepted)]).headers()[CONTENT_ENCODING], coding);
            }
            let etag = plain.headers()[ETAG].to_str().unwrap();
            assert_eq!(ask(&path, &[(IF_NONE_MATCH, etag)]).status(), 304);
        }
    }
}
