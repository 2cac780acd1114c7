use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::objects::TrustBundle;

/// The files of a volume as `path:mode=content`, or the error.
fn files(volume: Value) -> Result<Vec<String>, String> {
    let pod = json!({"metadata": {"name": "web", "namespace": "ns", "labels": {"a": "1", "b": "2"}},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "500m"}}}]}});
    let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
    let data =
        |text: &str| Some(Data::from([("k".to_owned(), text.into()), ("l".to_owned(), b"L".to_vec())]));
    let objects = Objects {
        config_maps: [("cm".to_owned(), data("map"))].into(),
        secrets: [("s".to_owned(), data("hidden"))].into(),
        trust_bundles: [("roots".to_owned(), TrustBundle::default())].into(),
    };
    let tokens = BTreeMap::from([((String::new(), 3600), "jwt".to_owned())]);
    let certificate = Certificate { key: "KEY\n".to_owned(), chain: "CHAIN\n".to_owned() };
    let certificates = BTreeMap::from([(("v".to_owned(), 0), certificate)]);
    let placement = Placement::default();
    let sources = Sources {
        desired_pod: &desired_pod,
        placement: &placement,
        objects: &objects,
        claims: &Claims::new(),
        tokens: &tokens,
        certificates: &certificates,
        images: &BTreeMap::new(),
    };
    let volume: core::Volume = {
        let mut volume = volume;
        volume["name"] = "v".into();
        serde_json::from_value(volume).unwrap()
    };
    let payload = None
        .or(volume.config_map.map(|v| sources.config_map(&v)))
        .or(volume.secret.map(|v| sources.secret(&v)))
        .or(volume.downward_api.map(|v| sources.downward(&v)))
        .or(volume.projected.map(|v| sources.projected(&volume.name, &v)))
        .unwrap();
    let show = |(path, file): (String, File)| {
        format!("{path}:{:o}={}", file.mode, String::from_utf8_lossy(&file.content))
    };
    payload.map(|p| p.into_iter().map(show).collect()).map_err(|e| e.to_string())
}

fn check(volume: Value, want: Result<&[&str], &str>) {
    let want = want.map(|w| w.iter().map(|&s| s.to_owned()).collect()).map_err(str::to_owned);
    assert_eq!(files(volume.clone()), want, "{volume}");
}

#[test]
fn objects_become_files() {
    check(json!({"configMap": {"name": "cm"}}), Ok(&["k:644=map", "l:644=L"]));
    check(json!({"secret": {"secretName": "s", "defaultMode": 0o400}}), Ok(&["k:400=hidden", "l:400=L"]));
    check(
        json!({"configMap": {"name": "cm", "items": [{"key": "k", "path": "sub/file", "mode": 0o600}]}}),
        Ok(&["sub/file:600=map"]),
    );
}

#[test]
fn what_is_missing() {
    check(json!({"configMap": {"name": "no"}}), Err("configmap \"ns\"/\"no\" not found"));
    check(json!({"configMap": {"name": "no", "optional": true}}), Ok(&[]));
    let items = json!([{"key": "x", "path": "x"}]);
    check(
        json!({"secret": {"secretName": "s", "items": items}}),
        Err("references non-existent secret key: x"),
    );
    check(json!({"secret": {"secretName": "s", "items": items, "optional": true}}), Ok(&[]));
}

#[test]
fn paths_stay_inside() {
    for path in ["../up", "a/../../b", "/abs", "", "..data"] {
        let volume = json!({"configMap": {"name": "cm", "items": [{"key": "k", "path": path}]}});
        assert!(files(volume).unwrap_err().starts_with("invalid path"), "{path}");
    }
}

#[test]
fn trust_bundle_and_pod_certificate_become_files() {
    let projected = |source: Value| json!({"projected": {"sources": [source]}});
    check(
        projected(json!({"clusterTrustBundle": {"name": "roots", "path": "ca.pem"}})),
        Ok(&["ca.pem:644="]),
    );
    check(
        projected(json!({"clusterTrustBundle": {"name": "no", "path": "ca.pem"}})),
        Err("while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"no\" not found"),
    );
    let certificate = |paths: Value| {
        let mut source = json!({"signerName": "a.b/s", "keyType": "ED25519"});
        source.as_object_mut().unwrap().extend(paths.as_object().unwrap().clone());
        json!({"podCertificate": source})
    };
    check(
        projected(certificate(json!({"credentialBundlePath": "all.pem"}))),
        Ok(&["all.pem:644=KEY\nCHAIN\n"]),
    );
    check(
        projected(certificate(json!({"keyPath": "key.pem", "certificateChainPath": "chain.pem"}))),
        Ok(&["chain.pem:644=CHAIN\n", "key.pem:644=KEY\n"]),
    );
    let second = json!([{"configMap": {"name": "cm"}}, certificate(json!({"keyPath": "key.pem"}))]);
    check(json!({"projected": {"sources": second}}), Err("no certificate of signer \"a.b/s\""));
}

#[test]
fn projections_combine() {
    let items = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "mode": 0o400,
         "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"}}]);
    check(
        json!({"projected": {"sources": [
            {"configMap": {"name": "cm", "items": [{"key": "k", "path": "k"}]}},
            {"secret": {"name": "s", "items": [{"key": "k", "path": "k"}]}},
            {"downwardAPI": {"items": items}},
            {"serviceAccountToken": {"path": "token"}},
        ]}}),
        Ok(&["cpu:400=500", "k:644=hidden", "labels:644=a=\"1\"\nb=\"2\"", "token:644=jwt"]),
    );
}
