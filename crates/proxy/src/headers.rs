//! What of a message's head is meant for the next hop alone, and what the proxy adds.

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{Method, Version};

use crate::Client;

pub const WEBSOCKET: &str = "websocket";
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Makes the head of a client's request into that of the backend's: the target is set by the caller.
pub fn for_backend(
    parts: &mut Parts,
    client: &Client,
    host: HeaderValue,
    prefix: Option<&str>,
    has_body: bool,
    says_forwarded: bool,
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
    parts.version = Version::HTTP_11;
    headers.insert(HOST, host.clone());
    if !says_forwarded {
        return;
    }
    let sent: Vec<HeaderName> = headers.keys().filter(|name| is_forwarding(name.as_str())).cloned().collect();
    sent.iter().for_each(|name| drop(headers.remove(name)));
    headers.insert(FORWARDED_FOR, client.ip_header.clone());
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(client.protocol));
    if let Some(Ok(prefix)) = prefix.map(HeaderValue::from_str) {
        headers.insert(FORWARDED_PREFIX, prefix);
    }
    headers.insert(FORWARDED_HOST, host);
}

/// Makes the head of a backend's answer into that for the client.
pub fn for_client(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    headers.remove(TRANSFER_ENCODING);
}

/// Whether the client wants this connection to become a WebSocket.
pub fn wants_websocket(version: Version, method: &Method, headers: &HeaderMap) -> bool {
    version == Version::HTTP_11 && method == Method::GET && is_websocket(headers)
}

/// Whether the only protocol that these headers change to is WebSocket.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    let mut protocols = headers.get_all(UPGRADE).iter();
    let (first, second) = (protocols.next(), protocols.next());
    let is_named = first.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()));
    is_named && second.is_none() && says(headers, "upgrade")
}

/// Whether a header tells backends where a request comes from, by any spelling that some of them take for it. Where the
/// proxy says so, what a client sent is dropped.
pub fn is_forwarding(name: &str) -> bool {
    const PREFIX: &str = "x-forwarded-";
    let same = |(byte, known): (u8, u8)| byte.to_ascii_lowercase() == known || byte == b'_' && known == b'-';
    let is = |known: &str| name.len() == known.len() && name.bytes().zip(known.bytes()).all(same);
    let begins = name.len() > PREFIX.len() && name.bytes().zip(PREFIX.bytes()).all(same);
    begins || is("forwarded") || is("x-real-ip")
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
        // Nobody may have the proxy drop what it or the message itself relies on.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarding_headers_are_known_by_any_spelling() {
        let forwarding = [
            "x-forwarded-for",
            "X-Forwarded-Host",
            "x_forwarded_for",
            "x-forwarded-port",
            "X-Forwarded-Anything",
            "forwarded",
            "Forwarded",
            "x-real-ip",
            "X_Real_IP",
        ];
        for name in forwarding {
            assert!(is_forwarding(name), "{name}");
        }
        for name in
            ["x-forwarded", "x-forwarded-", "forwarded-for", "x-real-ip2", "x-forward-for", "date", ""]
        {
            assert!(!is_forwarding(name), "{name}");
        }
    }

    #[test]
    fn upgrade_is_to_websocket_alone() {
        let check = |lines: &[(&str, &str)], expected: bool| {
            let parse = |(name, value): &(&str, &str)| {
                (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
            };
            let headers: HeaderMap = lines.iter().map(parse).collect();
            assert_eq!(wants_websocket(Version::HTTP_11, &Method::GET, &headers), expected, "{lines:?}");
            assert!(!wants_websocket(Version::HTTP_11, &Method::POST, &headers));
            assert!(!wants_websocket(Version::HTTP_2, &Method::GET, &headers));
        };
        check(&[("connection", "Upgrade"), ("upgrade", "WebSocket")], true);
        check(&[("connection", "keep-alive, upgrade"), ("upgrade", "websocket")], true);
        check(&[("connection", "upgrade"), ("upgrade", "h2c")], false);
        check(&[("connection", "upgrade"), ("upgrade", "websocket, h2c")], false);
        check(&[("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")], false);
        check(&[("upgrade", "websocket")], false);
        check(&[("connection", "upgrade")], false);
    }
}
