//! One test per form that values have.

use serde_json::{Value, json};

use super::{body, bytes, decoded, double, entry, message, number};
use crate::{DecodeError, decode};

#[track_caller]
fn check<const N: usize>((api_version, kind): (&str, &str), fields: [Vec<u8>; N], expected: Value) {
    assert_eq!(decoded(api_version, kind, fields), Ok(expected));
}

const POD: (&str, &str) = ("v1", "Pod");
const SERVICE: (&str, &str) = ("v1", "Service");
const CRD: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");

#[test]
fn texts_maps_and_bytes() {
    check(
        ("v1", "ConfigMap"),
        [
            message(1, [bytes(1, "settings"), entry(11, "app", "web"), entry(11, "empty", "")]),
            entry(2, "colour", "blue"),
            entry(2, "colour", "green"),
            entry(3, "raw", [0, 255]),
        ],
        json!({
            "metadata": {"name": "settings", "labels": {"app": "web", "empty": ""}},
            "data": {"colour": "green"},
            "binaryData": {"raw": "AP8="},
        }),
    );
}

#[test]
fn map_entries_without_key_or_value() {
    check(
        ("v1", "ConfigMap"),
        [message(2, [bytes(1, "key")]), message(2, [bytes(2, "value")])],
        json!({"data": {"key": "", "": "value"}}),
    );
}

#[test]
fn times() {
    let meta = |seconds, nanos| message(1, [message(8, [number(1, seconds), number(2, nanos)])]);
    check(POD, [meta(1_700_000_000, 5)], json!({"metadata": {"creationTimestamp": "2023-11-14T22:13:20Z"}}));
    check(POD, [meta(0, 0)], json!({"metadata": {}}));
    check(POD, [message(1, [message(8, [])])], json!({"metadata": {}}));
    check(POD, [meta(-1, 0)], json!({"metadata": {"creationTimestamp": "1969-12-31T23:59:59Z"}}));
    let renewed = message(2, [message(4, [number(1, 1_700_000_000), number(2, 1_234_567)])]);
    let expected = json!({"spec": {"renewTime": "2023-11-14T22:13:20.001234Z"}});
    check(("coordination.k8s.io/v1", "Lease"), [renewed], expected);
}

#[test]
fn times_outside_the_calendar() {
    for seconds in [i64::MAX, i64::MIN, 253_402_300_800, -62_167_219_201] {
        let got = decoded(POD.0, POD.1, [message(1, [message(8, [number(1, seconds)])])]);
        let expected =
            format!("meta.v1.ObjectMeta.creationTimestamp: {seconds} is outside the years 0 to 9999");
        assert_eq!(got.map_err(|e| e.to_string()), Err(expected));
    }
}

#[test]
fn int_or_string_and_quantities() {
    let port = |target: [Vec<u8>; 3]| message(2, [message(1, [number(3, 80), message(4, target)])]);
    check(
        SERVICE,
        [port([number(1, 0), number(2, 8080), bytes(3, "")])],
        json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
    );
    check(
        SERVICE,
        [port([number(1, 1), number(2, 0), bytes(3, "http")])],
        json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}]}}),
    );
    check(
        ("v1", "ResourceQuota"),
        [message(2, [message(1, [bytes(1, "pods"), message(2, [bytes(1, "10")])])])],
        json!({"spec": {"hard": {"pods": "10"}}}),
    );
}

#[test]
fn embedded_structs_stand_beside_the_others() {
    // Volume.volumeSource and SecretKeySelector.localObjectReference have no name in JSON.
    let volume = message(1, [bytes(1, "v"), message(2, [message(6, [bytes(1, "secret")])])]);
    let key_ref = message(4, [message(1, [bytes(1, "credentials")]), bytes(2, "token")]);
    let env = message(7, [bytes(1, "TOKEN"), bytes(2, ""), message(3, [key_ref])]);
    let container = message(2, [bytes(1, "c"), env]);
    check(
        POD,
        [message(2, [volume, container])],
        json!({"spec": {
            "volumes": [{"name": "v", "secret": {"secretName": "secret"}}],
            "containers": [{"name": "c", "env": [
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "credentials", "key": "token"}}},
            ]}],
        }}),
    );
}

#[test]
fn numbers_of_lists_packed_and_one_by_one() {
    let groups = |list| message(2, [message(14, [list])]);
    let expected = json!({"spec": {"securityContext": {"supplementalGroups": [1, 300]}}});
    check(POD, [groups([number(4, 1), number(4, 300)].concat())], expected.clone());
    check(POD, [groups(bytes(4, [1, 0xac, 0x02]))], expected);
}

#[test]
fn a_message_sent_in_parts_is_one() {
    check(
        POD,
        [message(1, [bytes(1, "a"), bytes(2, "g")]), message(1, [bytes(1, "b"), bytes(14, "f")])],
        json!({"metadata": {"name": "b", "generateName": "g", "finalizers": ["f"]}}),
    );
    check(POD, [message(1, [bytes(1, "a"), bytes(1, "")])], json!({"metadata": {}}));
}

#[test]
fn json_in_bytes() {
    let data = message(2, [bytes(1, r#"{"spec":{"replicas":1}}"#)]);
    let revision = ("apps/v1", "ControllerRevision");
    check(revision, [data, number(3, 7)], json!({"data": {"spec": {"replicas": 1}}, "revision": 7}));
    check(revision, [message(2, []), number(3, 0)], json!({"revision": 0}));
    let managed = message(17, [bytes(1, "kubectl"), message(7, [bytes(1, r#"{"f:data":{}}"#)])]);
    check(
        POD,
        [message(1, [managed])],
        json!({"metadata": {"managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {}}}]}}),
    );
    let got = decoded(revision.0, revision.1, [message(2, [bytes(1, "{")])]).map_err(|e| e.to_string());
    assert!(got.as_ref().is_err_and(|e| e.starts_with("apps.v1.ControllerRevision.data: ")), "{got:?}");
}

#[test]
fn schemas_that_are_one_thing_or_another() {
    let text = || bytes(5, "string");
    let properties = |name, schema: Vec<u8>| message(29, [bytes(1, name), bytes(2, schema)]);
    let schema = [
        properties("list", message(24, [message(1, [text()])])),
        properties("tuple", message(24, [message(2, [text()]), message(2, [text()])])),
        properties("open", message(30, [number(1, 1)])),
        properties("closed", message(30, [number(1, 0)])),
        properties("map", message(30, [number(1, 1), message(2, [text()])])),
        properties("number", [double(9, 1.5), double(11, 10.0)].concat()),
        properties("default", message(8, [bytes(1, "false")])),
        properties("needs", message(32, [bytes(1, "a"), message(2, [bytes(2, "b"), bytes(2, "c")])])),
    ]
    .concat();
    let version = message(7, [bytes(1, "v1"), number(2, 1), number(3, 0), message(4, [bytes(1, schema)])]);
    check(
        CRD,
        [message(2, [bytes(1, "example.com"), bytes(4, "Namespaced"), version])],
        json!({"spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {
                "properties": {
                    "list": {"items": {"type": "string"}},
                    "tuple": {"items": [{"type": "string"}, {"type": "string"}]},
                    "open": {"additionalProperties": true},
                    "closed": {"additionalProperties": false},
                    "map": {"additionalProperties": {"type": "string"}},
                    "number": {"maximum": 1.5, "minimum": 10},
                    "default": {"default": false},
                    "needs": {"dependencies": {"a": ["b", "c"]}},
                },
            }}}],
        }}),
    );
}

#[test]
fn lists_of_texts_in_maps() {
    let extra = message(5, [bytes(1, "scopes"), message(2, [bytes(1, "a"), bytes(1, "b")])]);
    check(
        ("authorization.k8s.io/v1", "SubjectAccessReview"),
        [message(2, [bytes(3, "jane"), extra])],
        json!({"spec": {"user": "jane", "extra": {"scopes": ["a", "b"]}}}),
    );
}

#[test]
fn options_of_a_delete_come_in_any_group() {
    for group in ["v1", "apps/v1", "meta.k8s.io/v1", "policy/v1"] {
        check((group, "DeleteOptions"), [number(1, 0)], json!({"gracePeriodSeconds": 0}));
    }
}

#[test]
fn unknown_fields_are_named_when_they_hold_something() {
    let spec = message(2, [number(99, 1), bytes(98, "new"), number(97, 0), bytes(96, "")]);
    let got = decode(&body("v1", "Pod", &spec)).unwrap();
    assert_eq!(got.object, json!({"kind": "Pod", "apiVersion": "v1", "spec": {}}));
    assert_eq!(got.unknown, ["field 99 of core.v1.PodSpec", "field 98 of core.v1.PodSpec"]);
    let many = decode(&body("v1", "Pod", &number(99, 1).repeat(50))).unwrap();
    assert_eq!(many.unknown.len(), 10);
}

#[test]
fn bodies_that_are_something_else() {
    let unknown = |api_version: &str, kind: &str| DecodeError::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    };
    assert_eq!(decode(b"{}"), Err(DecodeError::NoMagic));
    assert_eq!(decode(b"k8s\0"), Err(unknown("", "")));
    assert_eq!(decode(&body("example.com/v1", "Widget", b"")), Err(unknown("example.com/v1", "Widget")));
    assert_eq!(
        decode(&body("apps.example.com/v1", "Deployment", b"")),
        Err(unknown("apps.example.com/v1", "Deployment"))
    );
    let zipped = [body("v1", "Pod", b""), bytes(3, "gzip")].concat();
    assert_eq!(decode(&zipped), Err(DecodeError::Encoding("gzip".to_owned())));
}
