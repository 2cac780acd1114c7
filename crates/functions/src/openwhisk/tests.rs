//! Paths, actions and activations as clients of OpenWhisk send and expect them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use minik8s_api::{Handler, HandlerRequest};
use minik8s_meta::function::Function;
use minik8s_meta::invocation::{Invocation, InvocationStatus};
use serde_json::{Value, json};

use super::path::{Path, Wanted};
use super::{LARGEST_ACTION, OpenWhisk, Refused, action, activation};
use crate::zip;

fn request(path: &str, query: &str, key: Option<&str>) -> HandlerRequest {
    let basic = key.map(|key| format!("Basic {}", STANDARD.encode(key)));
    let headers = basic.map(|text| (AUTHORIZATION, HeaderValue::from_str(&text).unwrap()));
    HandlerRequest {
        path: format!("/openwhisk/api/v1/namespaces{path}"),
        query: query.to_owned(),
        headers: HeaderMap::from_iter(headers),
        ..HandlerRequest::default()
    }
}

#[test]
fn paths_name_what_is_wanted() {
    let check = |path: &str, namespace: &str, wanted: Wanted| {
        let parsed = Path::parse(&request(path, "", Some("shop:token"))).unwrap();
        assert_eq!((parsed.namespace.as_str(), parsed.wanted), (namespace, wanted), "{path}");
    };
    let text = str::to_owned;
    check("/_/actions", "shop", Wanted::Actions);
    check("/other/actions/alexa-frontend", "other", Wanted::Action(text("alexa-frontend")));
    check("/_/activations/0af1", "shop", Wanted::Activation(text("0af1"), text("")));
    check("/_/activations/0af1/result", "shop", Wanted::Activation(text("0af1"), text("result")));
    check("/_/packages", "shop", Wanted::Nothing(true));
    check("", "shop", Wanted::Namespaces);
    let refused = |path: &str, key: Option<&str>| Path::parse(&request(path, "", key)).unwrap_err().0;
    assert_eq!(refused("/_/actions", None), StatusCode::BAD_REQUEST, "no key, no own namespace");
    assert_eq!(refused("/_/actions", Some("../x:t")), StatusCode::BAD_REQUEST);
    for hostile in
        ["/_/actions/..", "/_/actions/a%2Fb", "/_/actions/a%3Fdry", "/A/actions", "/_/actions/x%20y"]
    {
        assert_eq!(refused(hostile, Some("shop:t")), StatusCode::BAD_REQUEST, "{hostile}");
    }
    for unknown in ["/_/actions/package/name", "/_/apis/x/y", "/_"] {
        assert_eq!(refused(unknown, Some("shop:t")), StatusCode::NOT_FOUND, "{unknown}");
    }
    let flags = Path::parse(&request("/_/actions/x", "blocking=true&result=false", Some("a:t"))).unwrap();
    assert!(flags.flag("blocking") && !flags.flag("result") && !flags.flag("overwrite"));
}

#[test]
fn body_of_an_action_alone_may_be_large() {
    let largest = |method: Method, path: &str| OpenWhisk::default().largest_body(&method, path);
    let action = "/openwhisk/api/v1/namespaces/_/actions/greet";
    assert_eq!(largest(Method::PUT, action), Some(LARGEST_ACTION));
    assert_eq!(largest(Method::POST, action), None, "parameters are not code");
    assert_eq!(largest(Method::PUT, "/openwhisk/api/v1/namespaces/_/actions"), None);
    assert_eq!(largest(Method::PUT, "/openwhisk/api/v1/namespaces/_/rules/greet"), None);
}

fn made(action: &Value, before: Function) -> Result<Function, Refused> {
    action::function("greet", "shop", action, before)
}

#[test]
fn action_becomes_a_function() {
    let wanted = json!({
        "namespace": "_", "name": "greet",
        "exec": {"kind": "nodejs:10", "code": "function main(p) { return p }", "main": "run"},
        "parameters": [{"key": "city", "value": "Graz"}],
        "limits": {"timeout": 1500, "memory": 128, "concurrency": 2},
    });
    let function = made(&wanted, Function::default()).unwrap();
    let spec = &function.spec;
    assert_eq!((spec.runtime.as_deref(), spec.handler.as_deref()), (Some("nodejs"), Some("main.run")));
    assert_eq!((spec.timeout_seconds, spec.concurrency), (Some(2), Some(2)));
    assert!(spec.code.as_ref().unwrap().source.is_some());
    let variable = |name: &str| spec.env.iter().find(|one| one.name == name).unwrap().value.clone().unwrap();
    assert_eq!(variable("__OW_PARAMETERS"), r#"{"city":"Graz"}"#);
    assert_eq!(variable("__OW_ACTION_NAME"), "/shop/greet");
    let shown = action::action(&function);
    assert_eq!(shown["parameters"], wanted["parameters"]);
    assert_eq!(shown["exec"]["kind"], "nodejs:default");
    // What an update does not say stays.
    let changed = made(&json!({"limits": {"timeout": 9000}}), function.clone()).unwrap();
    assert_eq!((changed.spec.timeout_seconds, changed.spec.code), (Some(9), function.spec.code));
    let archive = STANDARD.encode(b"PK\x03\x04rest");
    let zipped = made(&json!({"exec": {"kind": "python:3", "code": archive}}), Function::default()).unwrap();
    assert_eq!(zipped.spec.code.unwrap().zip, Some(archive));
    assert_eq!((zipped.spec.runtime.as_deref(), zipped.spec.handler), (Some("python3.11"), None));
}

#[test]
fn archive_with_names_above_is_as_unzip_unpacks_it() {
    let files = ["index.js", "../infra/language.js"].map(|name| (name.to_owned(), b"exports.x = 1".to_vec()));
    let archive = STANDARD.encode(zip::pack(&files).unwrap());
    let action = json!({"exec": {"kind": "nodejs:10", "code": archive}});
    let given = made(&action, Function::default()).unwrap().spec.code.unwrap().zip.unwrap();
    let given = STANDARD.decode(given).unwrap();
    assert_eq!(zip::names(&given).unwrap(), ["index.js", "infra/language.js"]);
}

#[test]
fn action_that_cannot_be_run_is_refused() {
    let check = |action: Value, told: &str| {
        let Refused(code, message) = made(&action, Function::default()).unwrap_err();
        assert!(code == StatusCode::BAD_REQUEST && message.contains(told), "{message}");
    };
    check(json!({"exec": {"kind": "swift:4", "code": "x"}}), "nodejs:VERSION");
    check(json!({"exec": {"kind": "blackbox", "image": "x"}}), "blackbox");
    check(json!({"exec": {"kind": "nodejs:10"}}), "exec.code");
    check(json!({}), "exec is missing");
    check(json!({"exec": "nodejs"}), "exec is missing");
}

#[test]
fn activation_says_how_a_call_ended() {
    let check = |code: Option<i32>, result: &str, words: &str, only: Value, http: u16| {
        let mut invocation = Invocation::default();
        invocation.spec.function = "greet".to_owned();
        invocation.metadata.creation_timestamp = Some(Time(Timestamp::from_millisecond(1000).unwrap()));
        invocation.status = Some(InvocationStatus {
            phase: "Succeeded".to_owned(),
            code,
            result: Some(result.to_owned()),
            completion_time: Some(Time(Timestamp::from_millisecond(1250).unwrap())),
            ..InvocationStatus::default()
        });
        let whole = activation::activation(&invocation);
        assert_eq!((&whole["response"]["status"], &whole["duration"]), (&json!(words), &json!(250)));
        let (status, value) = activation::answer(&invocation, true);
        assert_eq!((status.as_u16(), value), (http, only));
    };
    check(Some(200), r#"{"hi": 1}"#, "success", json!({"hi": 1}), 200);
    check(Some(200), "text", "success", json!({"value": "text"}), 200);
    check(Some(200), r#"{"error": "no"}"#, "application error", json!({"error": "no"}), 502);
    let raised = r#"{"errorType": "Error", "errorMessage": "boom"}"#;
    check(Some(500), raised, "action developer error", json!({"error": "boom"}), 502);
    check(Some(429), "", "whisk internal error", json!({"error": "the action could not be run"}), 502);
    check(None, "", "whisk internal error", json!({"error": "the action could not be run"}), 502);
}

#[test]
fn parameters_are_an_object() {
    assert_eq!(activation::payload(b" "), Ok("{}".to_owned()));
    assert_eq!(activation::payload(br#"{"a":1}"#), Ok(r#"{"a":1}"#.to_owned()));
    for bad in [&b"[1]"[..], b"1", b"{"] {
        assert_eq!(activation::payload(bad).unwrap_err().0, StatusCode::BAD_REQUEST);
    }
}
