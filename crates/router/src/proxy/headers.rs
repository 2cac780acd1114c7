//! What of a message's head is meant for the next hop alone, and what the router adds.

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{Method, Version};

use super::Client;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Makes the head of a client's request into that of the backend's: the target is set by the caller.
pub(super) fn for_backend(
    parts: &mut Parts,
    client: &Client,
    host: HeaderValue,
    prefix: Option<&str>,
    has_body: bool,
) {
    let headers = &mut parts.headers;
    remove_hop_by_hop(headers);
    headers.remove(EXPECT);
    if parts.version == Version::HTTP_2 {
        join_cookies(headers);
    }
    // A GET with a body is rare enough that it must be said.
    let says_length = headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING);
    if has_body && !says_length && matches!(parts.method, Method::GET | Method::HEAD) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if !has_body {
        headers.remove(TRANSFER_ENCODING);
    }
    let for_ = match headers.get(FORWARDED_FOR) {
        None => client.ip_header.clone(),
        Some(before) => appended(before, &client.ip_header),
    };
    headers.insert(FORWARDED_FOR, for_);
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(client.protocol));
    match prefix.map(HeaderValue::from_str) {
        Some(Ok(prefix)) => drop(headers.insert(FORWARDED_PREFIX, prefix)),
        _ => drop(headers.remove(FORWARDED_PREFIX)),
    }
    headers.insert(FORWARDED_HOST, host.clone());
    headers.insert(HOST, host);
    parts.version = Version::HTTP_11;
}

/// Makes the head of a backend's answer into that for the client.
pub(super) fn for_client(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    headers.remove(TRANSFER_ENCODING);
}

/// Whether the client wants to speak something else on this connection (WebSocket).
pub(super) fn wants_upgrade(version: Version, headers: &HeaderMap) -> bool {
    version == Version::HTTP_11 && headers.contains_key(UPGRADE) && says(headers, "upgrade")
}

/// Whether the `Connection` header has that word.
fn says(headers: &HeaderMap, word: &str) -> bool {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|found| found.trim().eq_ignore_ascii_case(word))
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let lines = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        let names = lines.flat_map(|line| line.split(',')).map(str::trim);
        let plain =
            |name: &&str| !name.eq_ignore_ascii_case("close") && !name.eq_ignore_ascii_case("keep-alive");
        // Nobody may have the router drop what it or the message itself relies on.
        let allowed = |name: &HeaderName| ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING].contains(name);
        let named: Vec<HeaderName> =
            names.filter(plain).filter_map(|name| name.parse().ok()).filter(allowed).collect();
        headers.remove(CONNECTION);
        for name in named {
            headers.remove(name);
        }
    }
    for name in [KEEP_ALIVE, PROXY_CONNECTION, UPGRADE] {
        headers.remove(name);
    }
    let trailers = headers.get(TE).is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    if !trailers && headers.remove(TE).is_some() {
        headers.remove(TRAILER);
    }
}

/// HTTP/2 clients may send one header per cookie; HTTP/1 knows one for all.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

fn appended(before: &HeaderValue, value: &HeaderValue) -> HeaderValue {
    let text = [before.as_bytes(), b", ", value.as_bytes()].concat();
    HeaderValue::from_bytes(&text).unwrap_or_else(|_| value.clone())
}
