//! Events that reach a router, handed on to the API server, which alone knows the triggers and their keys.
//!
//! A request from anywhere goes out under the node's name here, so nothing of it is passed on but what events are made of:
//! neither credentials nor headers by which the API server would take it for somebody else's.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use kube::Client;
use serde_json::Value;

/// Requests below this function's name are events; no function can have it.
pub const EVENTS: &str = "-";
/// All triggers of a namespace that choose CloudEvents.
const ALL: &str = "-";

/// Code and text of the answer.
pub type Answered = (StatusCode, String);

/// An event, and the trigger that it is for.
#[derive(Debug, PartialEq)]
pub struct Delivery {
    pub namespace: String,
    pub trigger: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Delivery {
    /// What `/fn/NAMESPACE/-/events` and `/fn/NAMESPACE/-/hooks/TRIGGER` mean; nothing for any other path.
    pub fn new(path: &str, headers: &HeaderMap, body: Bytes) -> Option<Delivery> {
        let (namespace, rest) = path.strip_prefix("/fn/")?.split_once('/')?;
        let trigger = match rest.strip_prefix("-/")? {
            "events" => ALL,
            hook => hook.strip_prefix("hooks/").filter(|name| is_name(name))?,
        };
        let headers = headers.iter().filter(|(name, _)| is_of_an_event(name.as_str()));
        let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
        is_name(namespace).then(|| Delivery {
            namespace: namespace.to_owned(),
            trigger: trigger.to_owned(),
            headers,
            body,
        })
    }
}

/// It becomes part of a path.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 253
        && text.bytes().all(plain)
        && edge(text.bytes().next())
        && edge(text.bytes().next_back())
}

fn is_of_an_event(header: &str) -> bool {
    const WHOLE: [&str; 5] =
        ["content-type", "idempotency-key", "x-hub-signature-256", "x-signature-256", "x-event-type"];
    const BEGINNINGS: [&str; 4] = ["ce-", "webhook-", "x-github-", "x-gitlab-"];
    WHOLE.contains(&header) || BEGINNINGS.iter().any(|beginning| header.starts_with(beginning))
}

pub async fn deliver(client: &Client, delivery: Delivery) -> Answered {
    let Delivery { namespace, trigger, headers, body } = delivery;
    let path = format!("/apis/minik8s.io/v1/namespaces/{namespace}/triggers/{trigger}/events");
    let Ok(mut request) = Request::post(path).body(Vec::from(body)) else {
        return (StatusCode::BAD_REQUEST, "the path cannot be asked for".to_owned());
    };
    *request.headers_mut() = headers;
    match client.request::<Value>(request).await {
        Ok(answer) => (StatusCode::ACCEPTED, format!("{answer}\n")),
        Err(kube::Error::Api(error)) => match StatusCode::from_u16(error.code) {
            // The node's own rights are nobody else's business.
            Ok(StatusCode::FORBIDDEN) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, error.message.clone()),
            Ok(code) => (code, error.message.clone()),
        },
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the control plane does not answer: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_events_name_a_namespace_and_a_trigger() {
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let found = Delivery::new(path, &HeaderMap::new(), Bytes::new());
            let found = found.as_ref().map(|one| (one.namespace.as_str(), one.trigger.as_str()));
            assert_eq!(found, expected, "{path}");
        };
        check("/fn/shop/-/events", Some(("shop", "-")));
        check("/fn/shop/-/hooks/github", Some(("shop", "github")));
        for wrong in [
            "/fn/shop/-/hooks/",
            "/fn/shop/-/hooks/-",
            "/fn/shop/-/hooks/a/b",
            "/fn/shop/-/hooks/..",
            "/fn/../-/events",
            "/fn/a%2fb/-/events",
            "/fn//-/events",
            "/fn/shop/-/other",
            "/fn/shop/-/hooks/a?x",
            "/fn/shop/f",
            "/x/shop/-/events",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn only_headers_of_events_are_passed_on() {
        let names = [
            "content-type",
            "ce-id",
            "x-hub-signature-256",
            "x-github-event",
            "authorization",
            "impersonate-user",
            "impersonate-group",
            "x-remote-user",
            "x-remote-group",
            "cookie",
            "host",
            "x-forwarded-for",
            "content-length",
            "connection",
            "expect",
        ];
        let headers: HeaderMap =
            names.iter().map(|name| (http::HeaderName::from_static(name), "v".parse().unwrap())).collect();
        let delivery = Delivery::new("/fn/shop/-/events", &headers, Bytes::new()).unwrap();
        let mut passed: Vec<&str> = delivery.headers.keys().map(http::HeaderName::as_str).collect();
        passed.sort_unstable();
        assert_eq!(passed, ["ce-id", "content-type", "x-github-event", "x-hub-signature-256"]);
    }
}
