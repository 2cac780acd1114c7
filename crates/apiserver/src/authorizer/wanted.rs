//! What a request wants, in the terms that RBAC rules are written in. Read from its head alone: what authorization
//! allows must be all that the body can ask for.

use minik8s_api::{FieldSelector, LOGS_GROUP, LOGS_RESOURCE};
use minik8s_auth::Attributes;

use crate::request::{Query, RequestInfo, percent_decode};

/// What is judged.
pub fn attributes<'a>(info: &'a RequestInfo, selected: &'a [(&'a str, &'a str)]) -> Attributes<'a> {
    if !info.is_resource {
        return Attributes::path(&info.verb, &info.path);
    }
    // Who may read logs one by one may search them.
    if is_log_search(info) {
        return Attributes::resource("get", "", "pods").in_namespace(&info.namespace).subresource("log");
    }
    // A list or watch of one name is a request for that object.
    let one = selected.iter().find(|(field, _)| *field == "metadata.name").map(|(_, name)| *name);
    let name = if info.name.is_empty() { one.unwrap_or_default() } else { &info.name };
    Attributes::resource(verb(info), &info.group, &info.resource)
        .in_namespace(&info.namespace)
        .named(name)
        .subresource(&info.subresource)
        .version(&info.version)
        .selecting(selected)
}

fn is_log_search(info: &RequestInfo) -> bool {
    let is_list = info.verb == "list" && info.name.is_empty() && info.subresource.is_empty();
    is_list && info.group == LOGS_GROUP && info.resource == LOGS_RESOURCE
}

/// Who runs something in a pod, or talks to what runs there, must be allowed to `create`, whatever the method:
/// WebSocket clients can only GET, and to look is not to act. The same holds for the kubelet's own doors to it.
fn verb(info: &RequestInfo) -> &str {
    let acts = match (info.group.as_str(), info.resource.as_str(), info.subresource.as_str()) {
        ("", "pods", "exec" | "attach" | "portforward") => true,
        ("", "nodes", "proxy") => {
            let door = info.rest.split('/').find(|part| !part.is_empty()).unwrap_or_default();
            let door = percent_decode(door);
            ["exec", "attach", "portforward", "run"].iter().any(|known| door.eq_ignore_ascii_case(known))
        }
        _ => false,
    };
    if acts { "create" } else { &info.verb }
}

/// `field=value` terms of the field selector of a request that selects; one that does not parse is refused later.
/// To all others the parameter means nothing: what is written stands in the path and the body.
pub fn exact_fields(info: &RequestInfo, query: &Query) -> Vec<(String, String)> {
    if !matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") {
        return Vec::new();
    }
    let Some(text) = query.get("fieldSelector").filter(|text| !text.is_empty()) else { return Vec::new() };
    let Ok(selector) = FieldSelector::parse(text) else { return Vec::new() };
    let exact = |field: &str| selector.exact(field).map(|value| (field.to_owned(), value.to_owned()));
    selector.fields().filter_map(exact).collect()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    /// What is judged: verb and name.
    fn check(method: Method, url: &str, expected: (&str, &str)) {
        let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
        let query = Query::parse(query);
        let info = RequestInfo::parse(&method, path, &query);
        let selected = exact_fields(&info, &query);
        let selected: Vec<(&str, &str)> = selected.iter().map(|(f, v)| (f.as_str(), v.as_str())).collect();
        let wanted = attributes(&info, &selected);
        assert_eq!((wanted.verb, wanted.name), expected, "{method} {url}");
    }

    #[test]
    fn logs_are_searched_by_those_who_may_read_them() {
        let check = |method: Method, path: &str, expected: &str| {
            let info = RequestInfo::parse(&method, path, &Query::parse(None));
            let wanted = attributes(&info, &[]);
            let found = format!(
                "{} {}/{}/{} {}",
                wanted.verb, wanted.api_group, wanted.resource, wanted.subresource, wanted.namespace
            );
            assert_eq!(found.trim(), expected, "{method} {path}");
        };
        check(Method::GET, "/apis/logs.minik8s.io/v1/namespaces/shop/logs", "get /pods/log shop");
        check(Method::GET, "/apis/logs.minik8s.io/v1/logs", "get /pods/log");
        check(Method::DELETE, "/apis/logs.minik8s.io/v1/logs", "deletecollection logs.minik8s.io/logs/");
        check(
            Method::GET,
            "/apis/logs.minik8s.io/v1/namespaces/shop/logs/x",
            "get logs.minik8s.io/logs/ shop",
        );
        check(
            Method::GET,
            "/apis/logs.minik8s.io/v1/namespaces/shop/others",
            "list logs.minik8s.io/others/ shop",
        );
    }

    #[test]
    fn field_selector_names_an_object_only_for_requests_that_select() {
        let secrets = "/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Dallowed";
        check(Method::GET, secrets, ("list", "allowed"));
        check(Method::GET, &format!("{secrets}&watch=1"), ("watch", "allowed"));
        check(Method::DELETE, secrets, ("deletecollection", "allowed"));
        check(Method::POST, secrets, ("create", ""));
        let one = "/api/v1/namespaces/a/secrets/other?fieldSelector=metadata.name%3Dallowed";
        for (method, verb) in [
            (Method::GET, "get"),
            (Method::PUT, "update"),
            (Method::PATCH, "patch"),
            (Method::DELETE, "delete"),
        ] {
            check(method, one, (verb, "other"));
        }
    }

    #[test]
    fn streams_into_pods_need_create_whatever_the_method() {
        for subresource in ["exec", "attach", "portforward"] {
            for method in [Method::GET, Method::POST] {
                check(method, &format!("/api/v1/namespaces/a/pods/p/{subresource}"), ("create", "p"));
            }
        }
        check(Method::GET, "/api/v1/namespaces/a/pods/p/log", ("get", "p"));
        for (method, verb) in [
            (Method::GET, "get"),
            (Method::POST, "create"),
            (Method::PUT, "update"),
            (Method::DELETE, "delete"),
        ] {
            check(method, "/api/v1/namespaces/a/pods/p/proxy/exec", (verb, "p"));
        }
        check(Method::GET, "/api/v1/nodes/n/proxy/metrics", ("get", "n"));
        for door in
            ["exec/a/p/c", "/exec/a/p/c", "attach/a/p/c", "portForward/a/p", "run/a/p/c", "%65xec/a/p/c"]
        {
            check(Method::GET, &format!("/api/v1/nodes/n/proxy/{door}"), ("create", "n"));
        }
        // A custom kind may call anything by that name.
        check(Method::GET, "/apis/example.com/v1/namespaces/a/pods/p/exec", ("get", "p"));
    }
}
