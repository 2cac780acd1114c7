//! What the mesh's kinds must look like.

use minik8s_api::{At, FieldErrors};
use serde_json::Value;

use crate::pattern;

const MOST_SUBSETS: usize = 64;
const LARGEST_WEIGHT: i64 = 1_000_000;
/// Every request pays for each of them.
const MOST_HEADERS: usize = 16;

pub fn virtual_service(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    let service = spec.field("serviceRef");
    if service.text().is_empty() {
        service.required(errors, "name a Service of this namespace");
    }
    let port = spec.field("port");
    if !port.int().is_some_and(|number| (1..=65535).contains(&number)) {
        port.invalid(errors, "must be a port of the Service, from 1 to 65535");
    }
    let subsets = spec.field("subsets");
    if subsets.is_empty() {
        subsets.required(errors, "name at least one Subset that gets requests");
    }
    if subsets.len() > MOST_SUBSETS {
        subsets.invalid(errors, format!("must have no more than {MOST_SUBSETS} entries"));
    }
    let routes: Vec<At<'_>> = subsets.items().collect();
    routes.iter().for_each(|route| one_route(route, errors));
    weights_or_matches(&subsets, &routes, errors);
    within(spec.field("timeoutSeconds"), 1, 3600, errors);
    failures(&spec, errors);
}

fn within(at: At<'_>, low: i64, high: i64, errors: &mut FieldErrors) {
    if at.exists() && !at.int().is_some_and(|number| (low..=high).contains(&number)) {
        at.invalid(errors, format!("must be between {low} and {high}"));
    }
}

/// How failures are borne, and made.
fn failures(spec: &At<'_>, errors: &mut FieldErrors) {
    let retries = spec.field("retries");
    if retries.exists() {
        within(retries.field("attempts"), 1, 10, errors);
        within(retries.field("perTrySeconds"), 1, 3600, errors);
        for on in retries.field("on").items() {
            on.one_of(errors, &["5xx", "connect-failure", "gateway-error", "reset"]);
        }
    }
    let mirror = spec.field("mirror");
    if mirror.exists() {
        let subset = mirror.field("subset");
        if subset.text().is_empty() {
            subset.required(errors, "name a Subset of this namespace");
        }
        within(mirror.field("percent"), 1, 100, errors);
    }
    let outlier = spec.field("outlier");
    if outlier.exists() {
        within(outlier.field("failures"), 1, 100, errors);
        within(outlier.field("ejectSeconds"), 1, 3600, errors);
    }
    let (abort, delay) = (spec.field("fault").field("abort"), spec.field("fault").field("delay"));
    if abort.is_set() {
        within(abort.field("percent"), 1, 100, errors);
        within(abort.field("status"), 400, 599, errors);
    }
    if delay.is_set() {
        within(delay.field("percent"), 1, 100, errors);
        within(delay.field("milliseconds"), 1, 60_000, errors);
    }
}

fn one_route(route: &At<'_>, errors: &mut FieldErrors) {
    let name = route.field("name");
    if name.text().is_empty() {
        name.required(errors, "name a Subset of this namespace");
    }
    let weight = route.field("weight");
    if weight.int().is_some_and(|number| !(0..=LARGEST_WEIGHT).contains(&number)) {
        weight.invalid(errors, format!("must be between 0 and {LARGEST_WEIGHT}"));
    }
    let url = route.field("url");
    if let Some(Err(problem)) = url.is_set().then(|| pattern::compile(url.text())) {
        url.invalid(errors, problem);
    }
    let headers = route.field("headers");
    if headers.len() > MOST_HEADERS {
        headers.invalid(errors, format!("must have no more than {MOST_HEADERS} entries"));
    }
    for (header, expression) in headers.entries() {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if header.is_empty() || !header.bytes().all(is_name) {
            expression.invalid(errors, "must stand under the name of an HTTP header");
        }
        if let Err(problem) = pattern::compile(expression.text()) {
            expression.invalid(errors, problem);
        }
    }
}

/// Both in one object could be understood in two ways, so they are not allowed.
fn weights_or_matches(subsets: &At<'_>, routes: &[At<'_>], errors: &mut FieldErrors) {
    let is_match = |route: &&At<'_>| route.field("url").is_set() || !route.field("headers").is_empty();
    let has_weight = |route: &&At<'_>| route.field("weight").exists();
    let (weights, matches) =
        (routes.iter().filter(has_weight).count(), routes.iter().filter(is_match).count());
    if weights > 0 && matches > 0 {
        subsets.invalid(
            errors,
            "must have weights, or url and headers, not both: use weights to split all requests, or url and headers to \
             choose by request, in which case an entry without both gets the rest",
        );
        return;
    }
    if weights > 0 && weights < routes.len() {
        for route in routes.iter().filter(|route| !has_weight(route)) {
            route.field("weight").required(errors, "the other entries have weights; 0 means no requests");
        }
    }
    if weights > 0 && routes.iter().all(|route| route.field("weight").int() == Some(0)) {
        subsets.invalid(errors, "must have at least one weight above 0");
    }
    if weights == 0 {
        let rest = routes.iter().position(|route| !is_match(&route));
        if let Some(behind) = rest.and_then(|rest| routes.get(rest + 1)) {
            behind.invalid(
                errors,
                "is never reached: the entry before it has no weight, url or headers and gets all requests",
            );
        }
    }
}

pub fn subset(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    let (pods, selector) = (spec.field("pods"), spec.field("selector"));
    match (pods.is_empty(), selector.exists()) {
        (true, false) => spec.required(errors, "give pods (names) or selector (labels)"),
        (false, true) => spec.invalid(errors, "must have one of pods and selector, not both"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_are_bounded() {
        let check = |field: &str, value: Value, expected: &str| {
            let mut object = json!({"spec": {"serviceRef": "s", "port": 80, "subsets": [{"name": "a"}]}});
            object["spec"][field] = value.clone();
            let mut errors = FieldErrors::default();
            virtual_service(&object, &mut errors);
            let found = format!("{errors:?}");
            match expected {
                "" => assert_eq!(found, format!("{:?}", FieldErrors::default()), "{value}"),
                expected => assert!(found.contains(expected), "{value}: {found}"),
            }
        };
        check("retries", json!({"attempts": 2, "on": ["5xx", "reset"], "perTrySeconds": 1}), "");
        check("retries", json!({"attempts": 0}), "between 1 and 10");
        check("retries", json!({"attempts": 1, "on": ["always"]}), "gateway-error");
        check("mirror", json!({"subset": "b", "percent": 101}), "between 1 and 100");
        check("mirror", json!({}), "name a Subset");
        check("outlier", json!({"failures": 5, "ejectSeconds": 30}), "");
        check("outlier", json!({"failures": 0, "ejectSeconds": 30}), "between 1 and 100");
        check("fault", json!({"delay": {"percent": 10, "milliseconds": 70_000}}), "between 1 and 60000");
        check("fault", json!({"delay": {"percent": 10, "milliseconds": 700}}), "");
    }

    fn problems(subsets: Value) -> String {
        let object = json!({"spec": {"serviceRef": "s", "port": 80, "subsets": subsets}});
        let mut errors = FieldErrors::default();
        virtual_service(&object, &mut errors);
        format!("{errors:?}")
    }

    #[test]
    fn weights_or_matches_not_both() {
        let good = [
            json!([{"name": "a", "weight": 1}, {"name": "b", "weight": 0}]),
            json!([{"name": "a", "url": "^/x"}, {"name": "b", "headers": {"end-user": "^jason$"}}, {"name": "c"}]),
            json!([{"name": "a"}]),
        ];
        for subsets in good {
            let none = format!("{:?}", FieldErrors::default());
            assert_eq!(problems(subsets.clone()), none, "{subsets}");
        }
        for (subsets, expected) in [
            (json!([{"name": "a", "weight": 1}, {"name": "b", "url": "x"}]), "not both"),
            (json!([{"name": "a", "weight": 1}, {"name": "b"}]), "0 means no requests"),
            (json!([{"name": "a", "weight": 0}]), "at least one weight"),
            (json!([{"name": "a"}, {"name": "b"}]), "never reached"),
            (json!([{"name": "a", "url": "a(b"}]), "unclosed group"),
            (json!([{"name": "a", "headers": {"x y": "a"}}]), "name of an HTTP header"),
            (json!([{"name": "a", "weight": -1}]), "between 0 and"),
            (json!([{"weight": 1}]), "name a Subset"),
            (json!([]), "at least one Subset"),
        ] {
            let found = problems(subsets.clone());
            assert!(found.contains(expected), "{subsets}: {found}");
        }
    }
}
