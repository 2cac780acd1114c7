//! Requests that an extension API server answers, passed on with headers that say whose they are.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;
use minik8s_auth::User;

use super::backend::Backend;
use crate::answer::Body;
use crate::api::Api;
use crate::dispatch::Incoming;
use crate::error::{ApiError, Result};
use crate::node_proxy::{self, Security, Target};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

impl super::Aggregator {
    pub async fn answer<B>(
        &self,
        api: &Arc<Api>,
        backend: &Backend,
        incoming: Incoming<B>,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let unavailable = |why: String| {
            let (name, namespace, service) = (&backend.name, &backend.namespace, &backend.service);
            ApiError::unavailable(format!(
                "service unavailable: APIService {name} (service {namespace}/{service}): {why}"
            ))
        };
        if !backend.known.read().is_available {
            return Err(unavailable("it has not passed its checks; see its condition Available".to_owned()));
        }
        let address = backend.endpoint(&api.registry).await.map_err(unavailable)?;
        let stream = backend.connect(address).await.map_err(unavailable)?;
        let Incoming { mut request, user, body, .. } = incoming;
        let path = request.uri().path().to_owned();
        if leads_elsewhere(&path) {
            return Err(ApiError::bad_request(
                "the path has segments that another server could read otherwise",
            ));
        }
        add_user(request.headers_mut(), &user);
        let target = Target { address, security: Security::Plain, path };
        match body {
            Some(body) => {
                let (parts, _) = request.into_parts();
                let request = http::Request::from_parts(parts, Full::new(body));
                node_proxy::forward(request, &target, None, stream).await
            }
            None => node_proxy::forward(request, &target, None, stream).await,
        }
    }
}

/// Whether a server that tidies paths up would answer for another one than was authorized here.
fn leads_elsewhere(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let encoded = ["%2e", "%2f", "%5c"].iter().any(|encoded| path.contains(encoded));
    encoded || path.split('/').skip(1).any(|segment| matches!(segment, "." | "..") || segment.contains('\\'))
}

/// Says whose request it is. What the client itself wrote there is no word of ours.
pub fn add_user(headers: &mut HeaderMap, user: &User) {
    let claimed: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-remote-")).cloned().collect();
    for name in claimed {
        headers.remove(name);
    }
    let mut add = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.append(name, value);
        }
    };
    add(USER, &user.name);
    if !user.uid.is_empty() {
        add(UID, &user.uid);
    }
    for group in &user.groups {
        add(GROUP, group);
    }
    for (key, values) in &user.extra {
        let Ok(name) = HeaderName::try_from(format!("{EXTRA}{}", escaped(key))) else { continue };
        for value in values {
            add(name.clone(), value);
        }
    }
}

/// Keys as header names can hold them: what they cannot is written as `%` and two digits.
fn escaped(key: &str) -> String {
    let mut text = String::with_capacity(key.len());
    for byte in key.to_lowercase().bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02x}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere_are_not_passed_on() {
        for (path, expected) in [
            ("/apis/g/v1/namespaces/n/things/x", false),
            ("/apis/g/v1/namespaces/n/things/a..b", false),
            ("/apis/g/v1/namespaces/n/things/x%3Ay", false),
            ("/apis/g/v1/namespaces/n/things/../../m/things", true),
            ("/apis/g/v1/namespaces/n/things/%2E%2e/x", true),
            ("/apis/g/v1/namespaces/n%2f..%2fm/things", true),
            ("/apis/g/v1/./things", true),
        ] {
            assert_eq!(leads_elsewhere(path), expected, "{path}");
        }
    }

    #[test]
    fn users_are_told_by_headers_that_clients_cannot_forge() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::from_static("admin"));
        headers.append(GROUP, HeaderValue::from_static("system:masters"));
        headers.append("x-remote-extra-scopes", HeaderValue::from_static("all"));
        let mut user = User::authenticated("ann", &["devs"]);
        user.extra.insert("example.com/team".to_owned(), vec!["red".to_owned()]);
        add_user(&mut headers, &user);
        assert_eq!(headers.get_all(USER).iter().collect::<Vec<_>>(), ["ann"]);
        assert!(headers.get_all(GROUP).iter().all(|group| group != "system:masters"), "{headers:?}");
        assert!(!headers.contains_key("x-remote-extra-scopes"));
        assert_eq!(headers["x-remote-extra-example.com%2fteam"], "red");
    }
}
