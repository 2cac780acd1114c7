//! What is written is what Go reads: the same object comes back, with the numbers and lengths of the wire format.

use serde_json::{Value, json};

use super::{body, bytes, entry, message, number};
use crate::{EncodeError, ListEncoder, decode, decode_answer, encode, encode_event, knows};

fn check(object: &Value) {
    let written = encode(object.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error:?}: {object}"));
    let read = decode(&written).unwrap();
    assert_eq!(read.object, *object);
    assert_eq!(read.unknown, Vec::<String>::new());
}

#[test]
fn what_kubectl_sends_comes_back() {
    for case in include_str!("kubectl.txt").split("\n\n") {
        check(&serde_json::from_str(case.lines().nth(2).unwrap()).unwrap());
    }
}

#[test]
fn every_form_of_a_value_comes_back() {
    check(&json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": "p", "generation": 3, "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionGracePeriodSeconds": 0, "labels": {"a": "", "b": "ü"},
            "managedFields": [{"fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}],
        },
        "spec": {
            "containers": [{
                "name": "c", "args": ["", "x"], "resources": {"limits": {"cpu": "100m"}},
                "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 5},
                "readinessProbe": {"tcpSocket": {"port": 80}},
                "env": [{"name": "e", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
            }],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/x"}}],
            "ephemeralContainers": [{"name": "d", "image": "i", "targetContainerName": "c", "resources": {}}],
            "hostNetwork": true, "priority": -7,
        },
        "status": {"podIP": "10.0.0.1"},
    }));
    check(&json!({
        "kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"k": "AP8="}, "type": "Opaque",
    }));
    check(&json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "l"},
        "spec": {"renewTime": "2026-01-02T03:04:05.000006Z", "leaseDurationSeconds": 0},
    }));
}

#[test]
fn alternatives_of_schemas_come_back() {
    let schema = json!({
        "type": "object", "additionalProperties": {"type": "string"}, "maximum": 1.5, "default": {"a": [1, null]},
        "properties": {
            "a": {"items": {"type": "integer"}, "additionalProperties": false},
            "b": {"enum": ["x", 1], "dependencies": {"c": ["d"], "e": {"type": "string"}}},
        },
    });
    check(&json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "c"},
        "spec": {
            "group": "g", "scope": "Namespaced", "names": {"plural": "cs", "kind": "C"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
        "status": {"acceptedNames": {"plural": "cs", "kind": "C"}, "storedVersions": ["v1"]},
    }));
}

#[test]
fn lists_are_alike() {
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": null}, "status": {}});
    let metadata = json!({"resourceVersion": "7", "remainingItemCount": 0});
    let list =
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": [pod("a"), pod("b")]});
    let written = encode(list.to_string().as_bytes()).unwrap();
    let item = |name: &str| message(2, [message(1, [bytes(1, name)]), bytes(2, ""), bytes(3, "")]);
    let expected = [message(1, [bytes(2, "7"), number(4, 0)]), item("a"), item("b")].concat();
    let head = body("v1", "PodList", &expected);
    // Go writes two empty texts behind it.
    assert_eq!(written, head[..head.len() - 4]);

    let mut encoder = ListEncoder::new("v1", "Pod", metadata.to_string().as_bytes()).unwrap();
    encoder.item(pod("a").to_string().as_bytes()).unwrap();
    encoder.item(br#"{"metadata":{"name":7}}"#).unwrap_err();
    encoder.item(pod("b").to_string().as_bytes()).unwrap();
    let (first, second) = encoder.finish();
    assert_eq!([first, second].concat(), written);
    let read = decode_answer(&written).unwrap();
    assert_eq!(read["metadata"], metadata);
    let names = [0, 1].map(|at| &read["items"][at]["metadata"]["name"]);
    assert_eq!((&read["kind"], names), (&json!("PodList"), [&json!("a"), &json!("b")]));
}

#[test]
fn long_messages_have_long_lengths() {
    for length in [0, 1, 120, 127, 128, 200, 16_383, 16_384, 3_000_000] {
        let text = "x".repeat(length);
        let object =
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"k": text}});
        let written = encode(object.to_string().as_bytes()).unwrap();
        let expected = [message(1, [bytes(1, "m")]), entry(2, "k", text)].concat();
        let expected = body("v1", "ConfigMap", &expected);
        assert_eq!(written, expected[..expected.len() - 4], "{length}");
    }
}

#[test]
fn event_is_a_frame() {
    let object = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": 410}).to_string();
    let mut out = b"before".to_vec();
    encode_event("ERROR", object.as_bytes(), &mut out).unwrap();
    let whole = encode(object.as_bytes()).unwrap();
    let event = [bytes(1, "ERROR"), message(2, [bytes(1, whole)])].concat();
    let length = u32::try_from(event.len()).unwrap().to_be_bytes();
    assert_eq!(out, [b"before".to_vec(), length.to_vec(), event].concat());
    encode_event("ADDED", b"{\"kind\":\"Widget\"}", &mut out.clone()).unwrap_err();
}

#[test]
fn what_does_not_fit_is_told() {
    let unknown = encode(br#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{}}"#);
    assert!(matches!(unknown, Err(EncodeError::UnknownKind { .. })), "{unknown:?}");
    assert!(knows("v1", "Pod") && !knows("v1", "Widget") && !knows("example.com/v1", "Pod"));
    for broken in [
        r#"{"kind":"Pod","apiVersion":"v1","spec":7}"#,
        r#"{"kind":"Pod","apiVersion":"v1","spec":{"priority":"high"}}"#,
        r#"{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":true}]}}"#,
        r#"{"kind":"Secret","apiVersion":"v1","data":{"k":"?"}}"#,
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"creationTimestamp":"yesterday"}}"#,
        r#"{"kind":"Pod","apiVersion":"v1","#,
        "[]",
        "",
    ] {
        let got = encode(broken.as_bytes());
        assert!(matches!(got, Err(EncodeError::Json(_))), "{broken}: {got:?}");
    }
    // A field that no table has, and nulls.
    let odd = br#"{"kind":"Pod","apiVersion":"v1","later":{"a":[1]},"spec":{"new":1,"nodeName":null},"status":null}"#;
    let read = decode(&encode(odd).unwrap()).unwrap().object;
    assert_eq!(read, json!({"kind": "Pod", "apiVersion": "v1", "spec": {}}));
}
