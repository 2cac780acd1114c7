//! One state of a function's code and settings: its name, the ConfigMap that keeps it, and the pods that run it.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::function::{
    BUILD_LABEL, CODE_ANNOTATION, FUNCTION_LABEL, Function, FunctionCode, FunctionSpec, NUMBER_ANNOTATION,
    PORT, REVISION_LABEL, SPEC_KEY, runtime,
};
use minik8s_runtime::owner_reference;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::build;

/// The container of every instance.
pub const CONTAINER: &str = "function";
pub const ARCHIVE: &str = "code.zip";
const DEPENDENCIES: &str = "dependencies";
/// No user of the host, and none that pods have by default.
const USER: i64 = 65_532;
/// For the runtime to end by itself after its last request.
const GRACE: i64 = 5;

/// What instances depend on: anything else can change without new ones. Scale, queue, traffic and
/// destinations are the routers' and the controllers' business.
pub fn hash(function: &Function) -> String {
    let spec = FunctionSpec {
        scale: None,
        queue: None,
        async_calls: None,
        traffic: Vec::new(),
        ..function.spec.clone()
    };
    let text = serde_json::to_vec(&spec).unwrap_or_default();
    Sha256::digest(&text).iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

pub fn config_map_name(function: &str, hash: &str) -> String {
    format!("{function}-{hash}")
}

/// The code and the spec of a revision, for its pods and for going back to it. Where there is a registry the code is here
/// only until it is there.
pub fn config_map(function: &Function, hash: &str, number: i64, in_registry: bool) -> ConfigMap {
    let name = function.metadata.name.as_deref().unwrap_or_default();
    let mut map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(config_map_name(name, hash)),
            annotations: Some([(NUMBER_ANNOTATION.to_owned(), number.to_string())].into()),
            ..meta(function, hash)
        },
        immutable: (!in_registry || spec_file(&function.spec).is_none()).then_some(true),
        ..ConfigMap::default()
    };
    // An image is named, and stays; anything else is the code itself.
    let code = function.spec.code.clone().filter(|code| code.image.is_some());
    if let (Some(image), Some(annotations)) = (pushed(&function.spec), &mut map.metadata.annotations) {
        annotations.insert(CODE_ANNOTATION.to_owned(), image.to_owned());
    }
    let spec = FunctionSpec { code, ..function.spec.clone() };
    let spec = serde_json::to_string(&spec).unwrap_or_default();
    let mut data = BTreeMap::from([(SPEC_KEY.to_owned(), spec)]);
    if let Some(code) = &function.spec.code {
        if let Some(source) = &code.source {
            data.insert(file(&function.spec).to_owned(), source.clone());
        }
        let archive = code.zip.as_ref().and_then(|text| STANDARD.decode(text).ok());
        map.binary_data = archive.map(|bytes| [(ARCHIVE.to_owned(), ByteString(bytes))].into());
    }
    map.data = Some(data);
    if let (Some(inputs), Some(labels)) = (build::inputs(&function.spec), &mut map.metadata.labels) {
        labels.insert(BUILD_LABEL.to_owned(), inputs.key);
    }
    map
}

/// The spec that a revision's ConfigMap keeps, with its code.
pub fn spec_of(map: &ConfigMap) -> Option<FunctionSpec> {
    let data = map.data.as_ref()?;
    let mut spec: FunctionSpec = serde_json::from_str(data.get(SPEC_KEY)?).ok()?;
    let source = data.iter().find(|(key, _)| *key != SPEC_KEY).map(|(_, text)| text.clone());
    let zip =
        map.binary_data.as_ref().and_then(|data| data.get(ARCHIVE)).map(|bytes| STANDARD.encode(&bytes.0));
    if source.is_some() || zip.is_some() {
        spec.code = Some(FunctionCode { source, zip, image: None });
    }
    Some(spec)
}

/// Where instances of a revision get their code from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// An image of the registry.
    Image(String),
    /// The revision's ConfigMap; or they have an image of their own.
    Map,
    /// It is on its way to the registry.
    Missing,
}

impl Code {
    /// `map` is that of the revision, once there is one.
    pub fn of(map: Option<&ConfigMap>, function: &Function, in_registry: bool) -> Code {
        if let Some(image) = pushed(&function.spec) {
            return Code::Image(image.to_owned());
        }
        match map {
            Some(map) => match image(map) {
                Some(image) => Code::Image(image.to_owned()),
                None if in_registry && waits(map) => Code::Missing,
                None => Code::Map,
            },
            None if in_registry && function.spec.code.is_some() => Code::Missing,
            None => Code::Map,
        }
    }
}

/// The image with the code where its owner has pushed it.
fn pushed(spec: &FunctionSpec) -> Option<&str> {
    spec.code.as_ref()?.image.as_deref()
}

/// The image with a revision's code.
pub fn image(map: &ConfigMap) -> Option<&str> {
    map.metadata.annotations.as_ref()?.get(CODE_ANNOTATION).map(String::as_str)
}

/// Whether a revision's code is to go from its ConfigMap to the registry. What older versions have made cannot change.
pub fn waits(map: &ConfigMap) -> bool {
    let is_ours = map.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(REVISION_LABEL));
    is_ours && map.immutable != Some(true) && code_file(map).is_some()
}

/// The one file of a revision's code, as its ConfigMap has it.
pub fn code_file(map: &ConfigMap) -> Option<(&str, &[u8])> {
    let texts = map.data.iter().flatten().filter(|(key, _)| *key != SPEC_KEY);
    let mut texts = texts.map(|(key, text)| (key.as_str(), text.as_bytes()));
    let archives = map.binary_data.iter().flatten();
    texts.next().or_else(|| archives.map(|(key, bytes)| (key.as_str(), bytes.0.as_slice())).next())
}

/// The same, as the spec has it.
pub fn spec_file(spec: &FunctionSpec) -> Option<(&'static str, Vec<u8>)> {
    let code = spec.code.as_ref()?;
    let source = code.source.as_ref().map(|text| (file(spec), text.clone().into_bytes()));
    source.or_else(|| Some((ARCHIVE, STANDARD.decode(code.zip.as_ref()?).ok()?)))
}

/// The code that such a file is.
pub fn code(name: &str, content: Vec<u8>) -> Option<FunctionCode> {
    if name == ARCHIVE {
        return Some(FunctionCode { zip: Some(STANDARD.encode(content)), ..FunctionCode::default() });
    }
    Some(FunctionCode { source: Some(String::from_utf8(content).ok()?), ..FunctionCode::default() })
}

/// The number of a revision that is kept.
pub fn number(map: &ConfigMap) -> i64 {
    let annotations = map.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(NUMBER_ANNOTATION)?.parse().ok()).unwrap_or(0)
}

/// Which revision a pod or ConfigMap is of.
pub fn hash_of(meta: &ObjectMeta) -> &str {
    meta.labels.as_ref().and_then(|labels| labels.get(REVISION_LABEL)).map_or("", String::as_str)
}

/// An instance. It may do nothing that the strictest Pod Security level forbids.
pub fn pod(function: &Function, hash: &str, code: &Code) -> Pod {
    let name = function.metadata.name.as_deref().unwrap_or_default();
    let account = function.spec.service_account_name.as_deref();
    let timeout = i64::from(function.spec.timeout_seconds());
    let mut pod = json!({
        "metadata": {},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": timeout + GRACE,
            "automountServiceAccountToken": account.is_some(),
            "enableServiceLinks": false,
            "securityContext": security(),
            "containers": [container(function, name, hash, code)],
            "volumes": volumes(function, name, hash, code),
        },
    });
    if let Some(account) = account {
        pod["spec"]["serviceAccountName"] = account.into();
    }
    if function.spec.image.is_some() {
        // Whose image it is chose its user; what it has claims on is its group's all the same.
        pod["spec"]["securityContext"] = json!({"seccompProfile": {"type": "RuntimeDefault"}});
        if !function.spec.volumes.is_empty() {
            pod["spec"]["securityContext"]["fsGroup"] = USER.into();
        }
    }
    let mut pod: Pod = serde_json::from_value(pod).unwrap_or_default();
    pod.metadata = ObjectMeta { generate_name: Some(format!("{name}-{hash}-")), ..meta(function, hash) };
    pod
}

/// Of pods that run what users have written.
pub fn security() -> Value {
    json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

fn container(function: &Function, name: &str, hash: &str, code: &Code) -> Value {
    let spec = &function.spec;
    let mut env: Vec<Value> = [
        ("PORT", PORT.to_string()),
        ("FN_NAME", name.to_owned()),
        ("FN_NAMESPACE", function.metadata.namespace.clone().unwrap_or_default()),
        ("FN_REVISION", hash.to_owned()),
        ("FN_HANDLER", spec.handler.clone().unwrap_or_default()),
        ("FN_CONCURRENCY", spec.concurrency().to_string()),
        ("FN_TIMEOUT", spec.timeout_seconds().to_string()),
    ]
    .into_iter()
    .chain(spec.cancel.unwrap_or_default().then(|| ("FN_CANCEL", "1".to_owned())))
    .map(|(name, value)| json!({"name": name, "value": value}))
    .collect();
    env.extend(spec.env.iter().map(|variable| json!(variable)));
    let known = spec.runtime.as_deref().and_then(runtime).map(|runtime| runtime.image);
    let mut container = json!({
        "name": CONTAINER,
        "image": spec.image.as_deref().or(known).unwrap_or_default(),
        "env": env,
        "envFrom": spec.env_from,
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 1},
        "resources": spec.resources.clone().unwrap_or_default(),
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    });
    let mut mounts = Vec::new();
    if code_volume(function, name, hash, code).is_some() {
        mounts.push(json!({"name": "code", "mountPath": "/fn/code", "readOnly": true}));
        mounts.push(json!({"name": "scratch", "mountPath": "/tmp"}));
        if spec.dependencies.is_some() {
            mounts
                .push(json!({"name": DEPENDENCIES, "mountPath": dependencies_path(spec), "readOnly": true}));
        }
    }
    mounts.extend(spec.volumes.iter().enumerate().map(|(number, volume)| {
        json!({"name": claim_name(number), "mountPath": volume.path, "readOnly": volume.read_only})
    }));
    if !mounts.is_empty() {
        container["volumeMounts"] = mounts.into();
    }
    container
}

/// Where the runtime looks for packages: Node from any folder upwards.
fn dependencies_path(spec: &FunctionSpec) -> &'static str {
    if file(spec) == "main.js" { "/node_modules" } else { "/fn/dependencies" }
}

fn volumes(function: &Function, name: &str, hash: &str, code: &Code) -> Value {
    let mut volumes = Vec::new();
    if let Some(code) = code_volume(function, name, hash, code) {
        volumes.extend([code, json!({"name": "scratch", "emptyDir": {}})]);
        if let Some(image) = &function.spec.dependencies {
            volumes.push(json!({"name": DEPENDENCIES, "image": {"reference": image}}));
        }
    }
    volumes.extend(function.spec.volumes.iter().enumerate().map(|(number, volume)| {
        let claim = json!({"claimName": volume.claim, "readOnly": volume.read_only});
        json!({"name": claim_name(number), "persistentVolumeClaim": claim})
    }));
    volumes.into()
}

fn claim_name(number: usize) -> String {
    format!("claim-{number}")
}

/// The volume with a revision's code.
pub fn code_volume(function: &Function, name: &str, hash: &str, code: &Code) -> Option<Value> {
    if let Code::Image(image) = code {
        return Some(json!({"name": "code", "image": {"reference": image}}));
    }
    let code = function.spec.code.as_ref()?;
    let key = if code.zip.is_some() { ARCHIVE } else { file(&function.spec) };
    let items = json!([{"key": key, "path": key}]);
    Some(json!({"name": "code", "configMap": {"name": config_map_name(name, hash), "items": items}}))
}

/// The file that inline source becomes.
fn file(spec: &FunctionSpec) -> &'static str {
    spec.runtime.as_deref().and_then(runtime).map_or("main", |runtime| runtime.file)
}

fn meta(function: &Function, hash: &str) -> ObjectMeta {
    let name = function.metadata.name.clone().unwrap_or_default();
    let labels = [(FUNCTION_LABEL.to_owned(), name), (REVISION_LABEL.to_owned(), hash.to_owned())];
    ObjectMeta {
        namespace: function.metadata.namespace.clone(),
        labels: Some(labels.into()),
        owner_references: Some(vec![owner_reference(function)]),
        ..ObjectMeta::default()
    }
}
