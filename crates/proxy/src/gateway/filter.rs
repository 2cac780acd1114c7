//! What filters make of heads: pure.

use std::borrow::Cow;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, CONTENT_LENGTH, HOST,
    HeaderMap, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING, UPGRADE, VARY,
};
use http::{Method, StatusCode};
use minik8s_meta::gateway::{Cors, HeaderModifier, PathModifier, RequestRedirect};

use super::Treatment;

/// What messages rely on is nobody's to change.
const KEPT: [HeaderName; 4] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, UPGRADE];

pub fn change_headers(headers: &mut HeaderMap, change: &HeaderModifier) {
    let name = |text: &str| text.parse::<HeaderName>().ok().filter(|name| !KEPT.contains(name));
    for header in &change.set {
        if let (Some(name), Ok(value)) = (name(&header.name), HeaderValue::from_str(&header.value)) {
            headers.insert(name, value);
        }
    }
    for header in &change.add {
        let Some(name) = name(&header.name) else { continue };
        // One header with several values says the same as several headers, and more readers understand it.
        let known: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
        let all = [known, vec![header.value.as_bytes()]].concat().join(&b","[..]);
        if let Ok(value) = HeaderValue::from_bytes(&all) {
            headers.insert(name, value);
        }
    }
    for text in &change.remove {
        if let Some(name) = name(text).filter(|name| *name != HOST) {
            headers.remove(name);
        }
    }
}

/// The path, without its query, as a modifier leaves it. `prefix` is what it was matched by.
pub fn change_path(path: &str, change: &PathModifier, prefix: Option<&str>) -> String {
    if let Some(full) = &change.replace_full_path {
        return if full.starts_with('/') { full.clone() } else { format!("/{full}") };
    }
    let Some(new) = &change.replace_prefix_match else { return path.to_owned() };
    let rest = match prefix.unwrap_or("/") {
        "/" => path,
        prefix => path.strip_prefix(prefix).unwrap_or(path),
    };
    let (new, rest) = (new.trim_end_matches('/'), rest.trim_start_matches('/'));
    match (new.is_empty(), rest.is_empty()) {
        (true, _) => format!("/{rest}"),
        (false, true) if path.ends_with('/') && path.len() > 1 => format!("{new}/"),
        (false, true) => new.to_owned(),
        (false, false) => format!("{new}/{rest}"),
    }
}

/// Path and query as the backend gets them.
pub fn rewrite<'a, R>(treatment: &Treatment<R>, path_and_query: &'a str) -> Cow<'a, str> {
    let mut changes =
        treatment.filters.iter().rev().filter_map(|filters| filters.rewrite.as_ref()?.path.as_ref());
    let Some(change) = changes.next() else { return path_and_query.into() };
    let (path, query) = path_and_query.split_once('?').map_or((path_and_query, None), |(a, b)| (a, Some(b)));
    let mut new = change_path(path, change, treatment.prefix.as_deref());
    if let Some(query) = query {
        new.push('?');
        new.push_str(query);
    }
    new.into()
}

/// What a redirection is made of beside itself.
pub struct Asked<'a> {
    /// As the client knows them.
    pub scheme: &'a str,
    /// With the port, if it said one.
    pub host: &'a str,
    pub path_and_query: &'a str,
    /// What the path was matched by.
    pub prefix: Option<&'a str>,
    /// Where the request came in, as the Gateway calls it.
    pub port: Option<u16>,
}

/// Code and place.
pub fn redirect(wanted: &RequestRedirect, asked: &Asked<'_>) -> (StatusCode, String) {
    let scheme = wanted.scheme.as_deref().unwrap_or(asked.scheme);
    let (own_host, own_port) = match asked.host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, port.parse::<i32>().ok())
        }
        _ => (asked.host, None),
    };
    let host = wanted.hostname.as_deref().unwrap_or(own_host);
    let usual = |scheme: &str| if scheme == "https" { 443 } else { 80 };
    // A new scheme has its own port; else it stays where the listener is.
    let port = wanted.port.or(match &wanted.scheme {
        Some(scheme) => Some(usual(scheme)),
        None => asked.port.map(i32::from).or(own_port),
    });
    let port = port.filter(|port| *port != usual(scheme)).map(|port| format!(":{port}")).unwrap_or_default();
    let (path, query) = match asked.path_and_query.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (asked.path_and_query, String::new()),
    };
    let path = wanted.path.as_ref().map_or(path.to_owned(), |change| change_path(path, change, asked.prefix));
    let code = wanted.status_code.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
    (code.unwrap_or(StatusCode::FOUND), format!("{scheme}://{host}{port}{path}{query}"))
}

/// Whether a browser asks what it may do.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a browser is told before it asks; nothing for a foreign origin.
pub fn preflight(cors: &Cors, asked: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    allow(cors, asked, &mut headers);
    if headers.is_empty() {
        return headers;
    }
    let credentials = cors.allow_credentials == Some(true);
    let mut list = |name: HeaderName, allowed: &[String], wanted: HeaderName| {
        // With credentials a star means nothing: what is asked for is allowed by name.
        let value = match allowed.iter().any(|one| one == "*") && credentials {
            true => asked.get(wanted).cloned(),
            false => HeaderValue::from_str(&allowed.join(", ")).ok(),
        };
        if let Some(value) = value.filter(|_| !allowed.is_empty()) {
            headers.insert(name, value);
        }
    };
    list(ACCESS_CONTROL_ALLOW_METHODS, &cors.allow_methods, ACCESS_CONTROL_REQUEST_METHOD);
    list(ACCESS_CONTROL_ALLOW_HEADERS, &cors.allow_headers, ACCESS_CONTROL_REQUEST_HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(cors.max_age.unwrap_or(5)));
    headers
}

/// Adds what the browser must know of an answer.
pub fn allow(cors: &Cors, asked: &HeaderMap, headers: &mut HeaderMap) {
    if allow_origin(cors, asked, headers)
        && !cors.expose_headers.is_empty()
        && let Ok(value) = HeaderValue::from_str(&cors.expose_headers.join(", "))
    {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, value);
    }
}

fn allow_origin(cors: &Cors, asked: &HeaderMap, headers: &mut HeaderMap) -> bool {
    let Some(origin) = asked.get(ORIGIN) else { return false };
    let text = origin.to_str().unwrap_or_default();
    if !cors.allow_origins.iter().any(|allowed| origin_matches(allowed, text)) {
        return false;
    }
    let credentials = cors.allow_credentials == Some(true);
    let any = cors.allow_origins.iter().any(|allowed| allowed == "*") && !credentials;
    headers.insert(
        ACCESS_CONTROL_ALLOW_ORIGIN,
        if any { HeaderValue::from_static("*") } else { origin.clone() },
    );
    if !any {
        headers.append(VARY, HeaderValue::from_static("origin"));
    }
    if credentials {
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    true
}

/// `https://*.example.org` is for every host below it.
fn origin_matches(allowed: &str, origin: &str) -> bool {
    let parts =
        |text: &'_ str| text.split_once("://").map(|(scheme, host)| (scheme.to_owned(), host.to_owned()));
    if allowed == "*" || allowed.eq_ignore_ascii_case(origin) {
        return true;
    }
    match (parts(allowed), parts(origin)) {
        (Some((scheme, pattern)), Some((own, host))) => {
            let below =
                pattern.strip_prefix('*').is_some_and(|end| host.len() > end.len() && host.ends_with(end));
            scheme == own && (pattern == "*" || below)
        }
        _ => false,
    }
}
