//! What users may leave out, filled in as the project's own definitions do.

use minik8s_api::fill::{field, items, object};
use serde_json::{Value, json};

use super::GROUP;

pub fn gateway(gateway: &mut Value) {
    let Some(spec) = object(gateway, "spec") else { return };
    listeners(spec);
    for address in items(spec, "addresses") {
        field(address, "type", "IPAddress");
    }
}

pub fn listener_set(set: &mut Value) {
    let Some(spec) = object(set, "spec") else { return };
    if let Some(parent) = object(spec, "parentRef") {
        parent_reference(parent);
    }
    listeners(spec);
}

fn listeners(spec: &mut Value) {
    for listener in items(spec, "listeners") {
        if listener["tls"].is_object() {
            let Some(tls) = object(listener, "tls") else { continue };
            field(tls, "mode", "Terminate");
            for reference in items(tls, "certificateRefs") {
                group_and_kind(reference, "", "Secret");
            }
        }
        let Some(allowed) = object(listener, "allowedRoutes") else { continue };
        if let Some(namespaces) = object(allowed, "namespaces") {
            field(namespaces, "from", "Same");
        }
        for kind in items(allowed, "kinds") {
            group(kind, GROUP);
        }
    }
}

pub fn http_route(route: &mut Value) {
    let Some(spec) = object(route, "spec") else { return };
    parents(spec);
    let every = json!([{"path": {"type": "PathPrefix", "value": "/"}}]);
    if spec["rules"].is_null() {
        spec["rules"] = json!([{}]);
    }
    for rule in items(spec, "rules") {
        if rule["matches"].is_null() {
            rule["matches"] = every.clone();
        }
        for wanted in items(rule, "matches") {
            if let Some(path) = object(wanted, "path") {
                field(path, "type", "PathPrefix");
                field(path, "value", "/");
            }
            values(wanted, "headers");
            values(wanted, "queryParams");
        }
        backends(rule);
    }
}

pub fn grpc_route(route: &mut Value) {
    let Some(spec) = object(route, "spec") else { return };
    parents(spec);
    for rule in items(spec, "rules") {
        for wanted in items(rule, "matches") {
            if wanted["method"].is_object() {
                field(&mut wanted["method"], "type", "Exact");
            }
            values(wanted, "headers");
        }
        backends(rule);
    }
}

pub fn l4_route(route: &mut Value) {
    let Some(spec) = object(route, "spec") else { return };
    parents(spec);
    for rule in items(spec, "rules") {
        backends(rule);
    }
}

fn values(wanted: &mut Value, list: &str) {
    for value in items(wanted, list) {
        field(value, "type", "Exact");
    }
}

fn parents(spec: &mut Value) {
    for parent in items(spec, "parentRefs") {
        parent_reference(parent);
    }
}

fn parent_reference(parent: &mut Value) {
    group_and_kind(parent, GROUP, "Gateway");
}

fn backends(rule: &mut Value) {
    filters(rule);
    for backend in items(rule, "backendRefs") {
        group_and_kind(backend, "", "Service");
        field(backend, "weight", 1);
        filters(backend);
    }
}

fn filters(holder: &mut Value) {
    for filter in items(holder, "filters") {
        if filter["requestRedirect"].is_object() {
            field(&mut filter["requestRedirect"], "statusCode", 302);
        }
        if filter["requestMirror"]["backendRef"].is_object() {
            group_and_kind(&mut filter["requestMirror"]["backendRef"], "", "Service");
        }
        if filter["requestMirror"]["fraction"].is_object() {
            field(&mut filter["requestMirror"]["fraction"], "denominator", 100);
        }
        if filter["cors"].is_object() {
            field(&mut filter["cors"], "maxAge", 5);
        }
    }
}

fn group_and_kind(reference: &mut Value, of: &str, kind: &str) {
    group(reference, of);
    field(reference, "kind", kind);
}

/// An empty group is core, and not left out.
fn group(reference: &mut Value, of: &str) {
    if reference["group"].is_null() && reference.is_object() {
        reference["group"] = of.into();
    }
}
