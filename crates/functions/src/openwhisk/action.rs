//! Actions of OpenWhisk as Functions, and back. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use k8s_openapi::api::core::v1::EnvVar;
use minik8s_meta::function::{Function, FunctionCode, runtime};
use serde_json::{Map, Value, json};

use super::{Refused, Result};
use crate::zip;

/// Parameters that every call has unless it says otherwise, for the runtime to add.
const PARAMETERS: &str = "__OW_PARAMETERS";
/// Where actions reach this API; the key is made by the runtime, of the instance's token.
const API_HOST: (&str, &str) = ("__OW_API_HOST", "https://kubernetes.default.svc/openwhisk");
const VERSION: &str = "0.0.1";
/// Kinds of actions, by how they begin, and the runtimes that they are run by.
const KINDS: [(&str, &str); 2] = [("nodejs", "nodejs"), ("python", "python3.11")];
const ZIP: &[u8] = b"PK\x03\x04";

/// The Function that an action is. What an update does not say stays.
pub fn function(name: &str, namespace: &str, action: &Value, mut function: Function) -> Result<Function> {
    let bad = |told: String| Refused(StatusCode::BAD_REQUEST, told);
    function.metadata.name = Some(name.to_owned());
    function.metadata.namespace = Some(namespace.to_owned());
    let spec = &mut function.spec;
    if let Some(exec) = action.get("exec").filter(|exec| exec.is_object()) {
        let kind = exec["kind"].as_str().unwrap_or_default();
        let known = KINDS.iter().find(|(begin, _)| kind.split(':').next() == Some(begin));
        let (_, runtime) = known.ok_or_else(|| {
            bad(format!("exec.kind {kind:?} cannot be run; nodejs:VERSION and python:VERSION can, as nodejs and python3.11"))
        })?;
        let code = exec["code"].as_str().filter(|code| !code.is_empty());
        let code = code.ok_or_else(|| bad("exec.code is missing".to_owned()))?;
        spec.runtime = Some((*runtime).to_owned());
        spec.code = Some(match archive(code) {
            Some(zip) => FunctionCode { zip: Some(zip), ..FunctionCode::default() },
            None => FunctionCode { source: Some(code.to_owned()), ..FunctionCode::default() },
        });
        let main = exec["main"].as_str().filter(|main| !main.is_empty() && *main != "main");
        spec.handler =
            main.map(|main| if main.contains('.') { main.to_owned() } else { format!("main.{main}") });
    } else if spec.code.is_none() {
        return Err(bad("exec is missing: {\"kind\": \"nodejs:default\", \"code\": …}".to_owned()));
    }
    if let Some(milliseconds) = action["limits"]["timeout"].as_i64() {
        spec.timeout_seconds = i32::try_from((milliseconds.clamp(1, 3_600_000) + 999) / 1000).ok();
    }
    if let Some(concurrency) = action["limits"]["concurrency"].as_i64() {
        spec.concurrency = i32::try_from(concurrency).ok();
    }
    if let Some(megabytes) = action["limits"]["memory"].as_i64() {
        let limit = json!({"limits": {"memory": format!("{megabytes}Mi")}});
        spec.resources = serde_json::from_value(limit).ok();
    }
    set(&mut spec.env, API_HOST.0, API_HOST.1.to_owned());
    set(&mut spec.env, "__OW_NAMESPACE", namespace.to_owned());
    set(&mut spec.env, "__OW_ACTION_NAME", format!("/{namespace}/{name}"));
    if let Some(parameters) = action["parameters"].as_array() {
        let pair = |one: &Value| Some((one["key"].as_str()?.to_owned(), one["value"].clone()));
        let all: Map<String, Value> = parameters.iter().filter_map(pair).collect();
        set(&mut spec.env, PARAMETERS, Value::Object(all).to_string());
    }
    // Its token is the key by which an action calls others.
    spec.service_account_name.get_or_insert_with(|| "default".to_owned());
    Ok(function)
}

/// Clients send archives in base64, and say so or not. Names may begin with `../`: OpenWhisk leaves that out.
fn archive(code: &str) -> Option<String> {
    let code = code.trim();
    let bytes = STANDARD.decode(code).ok().filter(|bytes| bytes.starts_with(ZIP))?;
    Some(zip::inside(&bytes).map_or_else(|| code.to_owned(), |inside| STANDARD.encode(inside)))
}

fn set(env: &mut Vec<EnvVar>, name: &str, value: String) {
    env.retain(|variable| variable.name != name);
    env.push(EnvVar { name: name.to_owned(), value: Some(value), value_from: None });
}

/// As lists show it.
pub fn summary(function: &Function) -> Value {
    let (meta, spec) = (&function.metadata, &function.spec);
    let updated = meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_millisecond());
    let kind = spec.runtime.as_deref().unwrap_or("blackbox");
    json!({
        "namespace": meta.namespace, "name": meta.name, "version": VERSION, "publish": false, "updated": updated,
        "annotations": [{"key": "exec", "value": kind}],
        "limits": {"timeout": spec.timeout_seconds() * 1000, "concurrency": spec.concurrency(), "memory": 256, "logs": 10},
        "exec": {"binary": spec.code.as_ref().is_some_and(|code| code.source.is_none())},
    })
}

/// With its code.
pub fn action(function: &Function) -> Value {
    let mut action = summary(function);
    let spec = &function.spec;
    let code = spec.code.as_ref().and_then(|code| code.source.as_ref().or(code.zip.as_ref()));
    let given = spec.env.iter().find(|variable| variable.name == PARAMETERS);
    let given: Map<String, Value> =
        given.and_then(|variable| serde_json::from_str(variable.value.as_deref()?).ok()).unwrap_or_default();
    let parameters: Vec<Value> =
        given.into_iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    action["parameters"] = parameters.into();
    action["exec"]["kind"] = match spec.runtime.as_deref().and_then(runtime).map(|runtime| runtime.name) {
        Some("nodejs") => "nodejs:default".into(),
        Some(_) => "python:3".into(),
        None => "blackbox".into(),
    };
    action["exec"]["code"] = code.cloned().into();
    action
}
