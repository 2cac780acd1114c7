//! What objects must be like, with the messages of the project's own definitions.

use minik8s_api::{At, FieldErrors};
use minik8s_meta::format;
use regex::Regex;
use serde_json::Value;

use super::validate_filters::filters;
use super::validate_gateway::{addresses, frontend_ports, infrastructure, tls_hostnames};
use super::validate_references::parents;
use crate::duration;

const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
pub fn gateway_class(object: &Value, errors: &mut FieldErrors) {
    let name = At::root(object).field("spec").field("controllerName");
    let has_path = name
        .text()
        .split_once('/')
        .is_some_and(|(domain, path)| format::subdomain(domain).is_empty() && !path.is_empty());
    if !has_path {
        name.invalid(errors, "must be a domain with a path, as minik8s.io/gateway-controller");
    }
}

pub fn gateway_class_update(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let name = |object| At::root(object).field("spec").field("controllerName");
    if name(object).text() != name(old).text() {
        name(object).invalid(errors, "Value is immutable");
    }
}

pub fn gateway(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    spec.field("gatewayClassName").need(errors);
    let all = spec.field("listeners");
    // Without any of its own a Gateway needs sets to bring some.
    if all.is_empty() && !spec.field("allowedListeners").is_set() {
        all.required(errors, "should have at least 1 items");
    }
    listeners(&all, errors);
    addresses(&spec.field("addresses"), errors);
    infrastructure(&spec.field("infrastructure"), errors);
    frontend_ports(&spec.field("tls").field("frontend").field("perPort"), errors);
}

pub fn listener_set(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    spec.field("parentRef").field("name").need(errors);
    let all = spec.field("listeners");
    if all.is_empty() {
        all.required(errors, "should have at least 1 items");
    }
    listeners(&all, errors);
}

fn listeners(all: &At<'_>, errors: &mut FieldErrors) {
    most(all, 64, errors);
    let (mut names, mut places) = (Vec::new(), Vec::new());
    for listener in all.items() {
        let name = listener.field("name");
        name.need_form(errors, format::subdomain);
        if names.contains(&name.text()) {
            all.invalid(errors, "Listener name must be unique within the Gateway");
        }
        names.push(name.text());
        let port = listener.field("port");
        within(&port, 1, 65535, errors);
        let protocol = listener.field("protocol");
        protocol.need(errors);
        let hostname = listener.field("hostname");
        host(&hostname, errors);
        let place = (port.int(), protocol.text(), hostname.text());
        if places.contains(&place) {
            all.invalid(
                errors,
                "Combination of port, protocol and hostname must be unique for each listener",
            );
        }
        places.push(place);
        let tls = listener.field("tls");
        match protocol.text() {
            "HTTP" | "TCP" | "UDP" if tls.exists() => {
                listener.invalid(errors, "tls must not be specified for protocols ['HTTP', 'TCP', 'UDP']");
            }
            "HTTPS" if tls.field("mode").text() == "Passthrough" => {
                listener.invalid(errors, "tls mode must be Terminate for protocol HTTPS");
            }
            "TLS" if !tls.field("mode").is_set() => {
                listener.invalid(errors, "tls mode must be set for protocol TLS");
            }
            "TCP" | "UDP" if hostname.is_set() => {
                listener.invalid(errors, "hostname must not be specified for protocols ['TCP', 'UDP']");
            }
            _ => {}
        }
        tls.field("mode").one_of(errors, &["Terminate", "Passthrough"]);
        let has_certificate = tls.field("certificateRefs").is_set() || tls.field("options").is_set();
        if tls.field("mode").text() == "Terminate" && !has_certificate {
            tls.invalid(errors, "certificateRefs or options must be specified when mode is Terminate");
        }
        let namespaces = listener.field("allowedRoutes").field("namespaces");
        namespaces.field("from").one_of(errors, &["All", "Selector", "Same"]);
    }
}

pub fn http_route(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    route(&spec, errors);
    let rules = spec.field("rules");
    most(&rules, 16, errors);
    let matches: usize = rules.items().map(|rule| rule.field("matches").len()).sum();
    if matches > 128 {
        let text = "While 16 rules and 64 matches per rule are allowed, the total number of matches across all rules in \
                    a route must be less than 128";
        rules.invalid(errors, text);
    }
    for rule in rules.items() {
        most(&rule.field("matches"), 64, errors);
        rule.field("matches").items().for_each(|wanted| http_match(&wanted, errors));
        filters(&rule.field("filters"), errors);
        backends(&rule, errors);
        http_rule(&rule, errors);
    }
}

fn http_rule(rule: &At<'_>, errors: &mut FieldErrors) {
    let has = |name: &str| rule.field("filters").items().any(|filter| filter.field("type").text() == name);
    if has("RequestRedirect") && rule.field("backendRefs").is_set() {
        rule.invalid(errors, "RequestRedirect filter must not be used together with backendRefs");
    }
    let matches: Vec<At<'_>> = rule.field("matches").items().collect();
    let one_prefix = matches.len() == 1 && matches[0].field("path").field("type").text() == "PathPrefix";
    for (name, field) in [("RequestRedirect", "requestRedirect"), ("URLRewrite", "urlRewrite")] {
        let replaces = rule.field("filters").items().any(|filter| replaces_prefix(&filter, field));
        if replaces && !one_prefix {
            let text = format!(
                "When using {name} filter with path.replacePrefixMatch, exactly one PathPrefix match must be specified"
            );
            rule.invalid(errors, text);
        }
    }
    let of_backends =
        || rule.field("backendRefs").items().flat_map(|backend| backend.field("filters").items());
    for (name, field, when) in
        [("RequestRedirect", "requestRedirect", "when"), ("URLRewrite", "urlRewrite", "When")]
    {
        let replaces = of_backends().any(|filter| replaces_prefix(&filter, field));
        if replaces && !one_prefix {
            let text = format!(
                "Within backendRefs, {when} using {name} filter with path.replacePrefixMatch, exactly one PathPrefix match \
                 must be specified"
            );
            rule.invalid(errors, text);
        }
    }
    let timeouts = rule.field("timeouts");
    let [request, backend] = ["request", "backendRequest"].map(|name| {
        let at = timeouts.field(name);
        let parsed = duration::parse(at.text());
        if at.is_set() && parsed.is_none() {
            at.invalid(errors, "must be a duration as 10s, 500ms or 1h30m");
        }
        parsed
    });
    if request.zip(backend).is_some_and(|(request, backend)| !request.is_zero() && backend > request) {
        timeouts.invalid(errors, "backendRequest timeout cannot be longer than request timeout");
    }
    let retry = rule.field("retry");
    for code in retry.field("codes").items() {
        within(&code, 400, 599, errors);
    }
    if retry.field("attempts").exists() {
        within(&retry.field("attempts"), 1, 100, errors);
    }
    let backoff = retry.field("backoff");
    if backoff.is_set() && duration::parse(backoff.text()).is_none() {
        backoff.invalid(errors, "must be a duration as 100ms");
    }
}

fn replaces_prefix(filter: &At<'_>, field: &str) -> bool {
    filter.field(field).field("path").field("replacePrefixMatch").exists()
}

fn http_match(wanted: &At<'_>, errors: &mut FieldErrors) {
    let path = wanted.field("path");
    let (kind, value) = (path.field("type").text(), path.field("value"));
    path.field("type").one_of(errors, &["Exact", "PathPrefix", "RegularExpression"]);
    if kind == "RegularExpression" {
        pattern(&value, errors);
    } else if path.exists() {
        plain_path(&path, value.text(), errors);
    }
    wanted.field("method").one_of(errors, &METHODS);
    for list in ["headers", "queryParams"] {
        values(&wanted.field(list), errors);
    }
}

fn plain_path(path: &At<'_>, value: &str, errors: &mut FieldErrors) {
    const FOR: &str = "when type one of ['Exact', 'PathPrefix']";
    if !value.starts_with('/') {
        path.invalid(errors, format!("value must be an absolute path and start with '/' {FOR}"));
    }
    for part in ["//", "/./", "/../", "%2f", "%2F", "#"] {
        if value.contains(part) {
            path.invalid(errors, format!("must not contain '{part}' {FOR}"));
        }
    }
    for end in ["/..", "/."] {
        if value.ends_with(end) {
            path.invalid(errors, format!("must not end with '{end}' {FOR}"));
        }
    }
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@%".contains(&byte);
    if !value.bytes().all(is_fit) {
        let text = "must only contain valid characters (matching ^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$) \
                    for types ['Exact', 'PathPrefix']";
        path.invalid(errors, text);
    }
}

fn values(list: &At<'_>, errors: &mut FieldErrors) {
    most(list, 16, errors);
    for value in list.items() {
        value.field("name").need(errors);
        value.field("type").one_of(errors, &["Exact", "RegularExpression"]);
        if value.field("type").text() == "RegularExpression" {
            pattern(&value.field("value"), errors);
        }
    }
}

/// Linear in time, as small as it must be.
pub fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    regex::RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(1 << 20).build()
}

fn pattern(at: &At<'_>, errors: &mut FieldErrors) {
    if let Err(error) = compile(at.text()) {
        at.invalid(errors, format!("must be a regular expression: {error}"));
    }
}

pub fn grpc_route(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    route(&spec, errors);
    most(&spec.field("rules"), 16, errors);
    for rule in spec.field("rules").items() {
        for wanted in rule.field("matches").items() {
            let method = wanted.field("method");
            method.field("type").one_of(errors, &["Exact", "RegularExpression"]);
            if method.exists() && !method.field("service").is_set() && !method.field("method").is_set() {
                method.invalid(errors, "One or both of 'service' or 'method' must be specified");
            }
            if method.field("type").text() == "RegularExpression" {
                pattern(&method.field("service"), errors);
                pattern(&method.field("method"), errors);
            } else {
                grpc_method(&method, errors);
            }
            values(&wanted.field("headers"), errors);
        }
        filters(&rule.field("filters"), errors);
        backends(&rule, errors);
    }
}

fn grpc_method(exact: &At<'_>, errors: &mut FieldErrors) {
    let (service, method) = (exact.field("service"), exact.field("method"));
    let parts = service.text().strip_prefix('.').unwrap_or(service.text());
    if service.exists() && !parts.split('.').all(is_identifier) {
        let text = "service must only contain valid characters (matching \
                    ^(?i)\\.?[a-z_][a-z_0-9]*(\\.[a-z_][a-z_0-9]*)*$)";
        exact.invalid(errors, text);
    }
    if method.exists() && !is_identifier(method.text()) {
        exact
            .invalid(errors, "method must only contain valid characters (matching ^[A-Za-z_][A-Za-z_0-9]*$)");
    }
}

fn is_identifier(text: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let begins = text.bytes().next().is_some_and(is_first);
    begins && text.bytes().all(|byte| is_first(byte) || byte.is_ascii_digit())
}

pub fn tls_route(object: &Value, errors: &mut FieldErrors) {
    let hostnames = At::root(object).field("spec").field("hostnames");
    if hostnames.is_empty() {
        hostnames.required(errors, "should have at least 1 items");
    }
    tls_hostnames(&hostnames, errors);
    l4_route(object, errors);
}

pub fn l4_route(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    route(&spec, errors);
    let rules = spec.field("rules");
    if rules.len() != 1 {
        rules.invalid(errors, "must have exactly one rule");
    }
    for rule in rules.items() {
        if rule.field("backendRefs").is_empty() {
            rule.field("backendRefs").required(errors, "should have at least 1 items");
        }
        backends(&rule, errors);
    }
}

fn route(spec: &At<'_>, errors: &mut FieldErrors) {
    let all = spec.field("parentRefs");
    most(&all, 32, errors);
    for parent in all.items() {
        parent.field("name").need(errors);
        if parent.field("port").exists() {
            within(&parent.field("port"), 1, 65535, errors);
        }
    }
    parents(&all, errors);
    let hostnames = spec.field("hostnames");
    most(&hostnames, 16, errors);
    hostnames.items().for_each(|hostname| host(&hostname, errors));
}

fn backends(rule: &At<'_>, errors: &mut FieldErrors) {
    let all = rule.field("backendRefs");
    most(&all, 16, errors);
    for backend in all.items() {
        reference(&backend, errors);
        if backend.field("weight").exists() {
            within(&backend.field("weight"), 0, 1_000_000, errors);
        }
        filters(&backend.field("filters"), errors);
    }
}

pub fn reference(backend: &At<'_>, errors: &mut FieldErrors) {
    backend.field("name").need(errors);
    let is_service =
        backend.field("group").text().is_empty() && matches!(backend.field("kind").text(), "" | "Service");
    if is_service && !backend.field("port").exists() {
        backend.invalid(errors, "Must have port for Service reference");
    }
    if backend.field("port").exists() {
        within(&backend.field("port"), 1, 65535, errors);
    }
}

pub fn reference_grant(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    for (list, names) in [("from", &["kind", "namespace"][..]), ("to", &["kind"])] {
        let all = spec.field(list);
        if all.is_empty() {
            all.required(errors, "should have at least 1 items");
        }
        most(&all, 16, errors);
        for one in all.items() {
            for name in names {
                one.field(name).need(errors);
            }
        }
    }
}

/// A name, or `*.` and a name.
fn host(at: &At<'_>, errors: &mut FieldErrors) {
    let text = at.text();
    let name = text.strip_prefix("*.").unwrap_or(text);
    if at.is_set() && (!format::subdomain(name).is_empty() || text.parse::<std::net::IpAddr>().is_ok()) {
        at.invalid(errors, "must be a host name in lower case, or such a name after *.");
    }
}

pub fn most(list: &At<'_>, count: usize, errors: &mut FieldErrors) {
    if list.len() > count {
        list.invalid(errors, format!("must have at most {count} items"));
    }
}

pub fn within(at: &At<'_>, low: i64, high: i64, errors: &mut FieldErrors) {
    if !at.int().is_some_and(|number| (low..=high).contains(&number)) {
        at.invalid(errors, format!("must be between {low} and {high}"));
    }
}
