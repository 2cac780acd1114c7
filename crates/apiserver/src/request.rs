//! What a request is about, read from method, path and query alone.

use std::borrow::Cow;

use http::Method;
use minik8s_api::{FieldSelector, LabelSelector};

use crate::error::{ApiError, Result};

/// The parts of a Kubernetes URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// False for `/healthz`, `/version`, discovery and the like.
    pub is_resource: bool,
    /// get, list, watch, create, update, patch, delete, deletecollection; else the lower-case method.
    pub verb: String,
    pub path: String,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    /// What follows a subresource, as it was sent: after `proxy` from its slash on, empty without one.
    pub rest: String,
}

impl RequestInfo {
    pub fn parse(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = RequestInfo {
            path: path.to_owned(),
            verb: method.as_str().to_ascii_lowercase(),
            ..RequestInfo::default()
        };
        let decoded: Vec<Cow<'_, str>> =
            path.trim_matches('/').split('/').map(|part| percent_decode(part)).collect();
        let mut parts: &[Cow<'_, str>] = &decoded;
        match parts {
            [api, version, rest @ ..] if api == "api" && !rest.is_empty() => {
                info.version = version.to_string();
                parts = rest;
            }
            [apis, group, version, rest @ ..] if apis == "apis" && !rest.is_empty() => {
                info.group = group.to_string();
                info.version = version.to_string();
                parts = rest;
            }
            _ => return info,
        }
        info.is_resource = true;
        let legacy_watch = parts.len() > 1 && parts[0] == "watch";
        if legacy_watch {
            parts = &parts[1..];
        }
        if parts[0] == "namespaces" && parts.len() > 1 {
            info.namespace = parts[1].to_string();
            // `namespaces/x/status` is the Namespace itself; `namespaces/x/pods` is what lives in it.
            let own_subresource = parts.len() == 3 && matches!(&*parts[2], "status" | "finalize");
            if parts.len() > 2 && !own_subresource {
                parts = &parts[2..];
            }
        }
        info.resource = parts[0].to_string();
        info.name = parts.get(1).map(ToString::to_string).unwrap_or_default();
        info.subresource = parts.get(2).map(ToString::to_string).unwrap_or_default();
        if parts.len() > 3 || info.subresource == "proxy" {
            let known = decoded.len() - parts.len() + 3;
            info.rest = after(path.trim_start_matches('/'), known).to_owned();
        }
        info.verb = info.verb_for(method, query, legacy_watch).to_owned();
        info
    }

    fn verb_for(&self, method: &Method, query: &Query, legacy_watch: bool) -> &'static str {
        match *method {
            Method::GET | Method::HEAD => {
                if legacy_watch || (self.subresource.is_empty() && query.flag("watch")) {
                    "watch"
                } else if self.name.is_empty() {
                    "list"
                } else {
                    "get"
                }
            }
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if self.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ => "unknown",
        }
    }
}

/// The query string, decoded once.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(query: Option<&str>) -> Self {
        Query(form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// `?watch`, `?watch=1`, `?watch=true`.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("" | "1" | "t" | "T" | "true" | "True" | "TRUE"))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!("query parameter {name}: {text:?} is not a valid number"))
            }),
        }
    }
}

/// Options of list and watch.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub limit: usize,
    pub continue_token: String,
    pub resource_version: String,
    pub resource_version_match: String,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
}

impl ListOptions {
    pub fn parse(query: &Query) -> Result<Self> {
        let labels = LabelSelector::parse(query.text("labelSelector"))
            .map_err(|e| ApiError::bad_request(format!("unable to parse requirement: {e}")))?;
        let fields = FieldSelector::parse(query.text("fieldSelector"))
            .map_err(|e| ApiError::bad_request(e.to_string()))?;
        let options = ListOptions {
            labels,
            fields,
            limit: query.number("limit")?.unwrap_or(0),
            continue_token: query.text("continue").to_owned(),
            resource_version: query.text("resourceVersion").to_owned(),
            resource_version_match: query.text("resourceVersionMatch").to_owned(),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
            timeout_seconds: query.number("timeoutSeconds")?,
        };
        options.check_versions()?;
        Ok(options)
    }

    fn check_versions(&self) -> Result<()> {
        match self.resource_version_match.as_str() {
            "" => Ok(()),
            "Exact" | "NotOlderThan" if !self.continue_token.is_empty() => {
                Err(ApiError::bad_request("resourceVersionMatch is forbidden when continue is provided"))
            }
            "Exact" | "NotOlderThan"
                if self.resource_version.is_empty() && self.send_initial_events.is_none() =>
            {
                Err(ApiError::bad_request(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ))
            }
            "Exact" if self.resource_version == "0" => Err(ApiError::bad_request(
                "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            )),
            "Exact" | "NotOlderThan" => Ok(()),
            other => Err(ApiError::bad_request(format!(
                "resourceVersionMatch: unsupported value {other:?}: use \"Exact\" or \"NotOlderThan\""
            ))),
        }
    }
}

/// A `resourceVersion` that a client sent: empty and "0" are `None`.
pub fn parse_version(text: &str) -> Result<Option<u64>> {
    match text {
        "" | "0" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            ApiError::bad_request(format!("Invalid value: {text:?}: resourceVersion must be a number"))
        }),
    }
}

/// Options of every write.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl WriteOptions {
    pub fn parse(query: &Query, user_agent: &str) -> Result<Self> {
        let dry_run = match query.get("dryRun") {
            None | Some("") => false,
            Some("All") => true,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "dryRun: unsupported value {other:?}: use \"All\""
                )));
            }
        };
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                return Err(ApiError::bad_request(format!(
                    "fieldValidation: unsupported value {other:?}: use \"Ignore\", \"Warn\" or \"Strict\""
                )));
            }
        };
        let field_manager = query.text("fieldManager");
        if field_manager.len() > 128 || !field_manager.chars().all(|c| !c.is_control()) {
            return Err(ApiError::bad_request("fieldManager: at most 128 printable characters are allowed"));
        }
        let field_manager = minik8s_patch::managed::manager_name(field_manager, user_agent);
        Ok(WriteOptions { dry_run, field_manager, field_validation, force: query.flag("force") })
    }
}

/// What follows that many segments, with the slash before it.
fn after(path: &str, segments: usize) -> &str {
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    slashes.nth(segments - 1).map_or("", |at| &path[at..])
}

/// Text in which `%41` stands for `A`. What is not such a number stays.
pub fn percent_decode(part: &str) -> Cow<'_, str> {
    if !part.contains('%') {
        return Cow::Borrowed(part);
    }
    let bytes = part.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).and_then(|h| std::str::from_utf8(h).ok());
        match hex.and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) if bytes[i] == b'%' => {
                decoded.push(byte);
                i += 3;
            }
            _ => {
                decoded.push(bytes[i]);
                i += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, url: &str, expected: &str) {
        let (path, query) = url.split_once('?').map_or((url, None), |(p, q)| (p, Some(q)));
        let i = RequestInfo::parse(&method, path, &Query::parse(query));
        let got = format!(
            "{} {}/{} {}|{}|{}|{}",
            i.verb, i.group, i.version, i.namespace, i.resource, i.name, i.subresource
        );
        assert_eq!(got, expected, "{method} {url}");
    }

    #[test]
    fn proxy_path_stays_as_it_was_sent() {
        let check = |url: &str, expected: &str| {
            let info = RequestInfo::parse(&Method::GET, url, &Query::default());
            assert_eq!((info.subresource.as_str(), info.rest.as_str()), ("proxy", expected), "{url}");
        };
        let pod = "/api/v1/namespaces/a/pods/https:b:443/proxy";
        for rest in ["", "/", "//", "/a%20b/", "/a%3Fb", "/a/../b//c/", "/%2F"] {
            check(&format!("{pod}{rest}"), rest);
            check(&format!("//api/v1/nodes/n/proxy{rest}"), rest);
        }
        let info = RequestInfo::parse(&Method::GET, "/api/v1/namespaces/a/pods/b/status/", &Query::default());
        assert_eq!(info.rest, "", "a slash at the end means nothing elsewhere");
    }

    #[test]
    fn urls() {
        check(Method::GET, "/api/v1/pods", "list /v1 |pods||");
        check(Method::GET, "/api/v1/namespaces", "list /v1 |namespaces||");
        check(Method::GET, "/api/v1/namespaces/a", "get /v1 a|namespaces|a|");
        check(Method::PUT, "/api/v1/namespaces/a/finalize", "update /v1 a|namespaces|a|finalize");
        check(Method::GET, "/api/v1/namespaces/a/pods?watch=1", "watch /v1 a|pods||");
        check(Method::GET, "/api/v1/watch/namespaces/a/pods", "watch /v1 a|pods||");
        check(Method::POST, "/apis/apps/v1/namespaces/a/deployments", "create apps/v1 a|deployments||");
        check(
            Method::PATCH,
            "/apis/apps/v1/namespaces/a/deployments/b/scale",
            "patch apps/v1 a|deployments|b|scale",
        );
        check(Method::DELETE, "/api/v1/namespaces/a/pods", "deletecollection /v1 a|pods||");
        check(Method::GET, "/api/v1/namespaces/a/pods/b/log", "get /v1 a|pods|b|log");
        check(Method::GET, "/apis/apps/v1", "get / |||");
        check(Method::GET, "/healthz", "get / |||");
        check(
            Method::GET,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            "get rbac.authorization.k8s.io/v1 |clusterroles|system:node|",
        );
    }
}
