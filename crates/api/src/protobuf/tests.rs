use proptest::prelude::*;
use serde_json::json;

use super::table::Type;
use super::*;
use crate::{Definition, kinds};

/// A field with bytes.
fn part(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    assert!(number < 16 && bytes.len() < 128, "the test's own encoder is small");
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

fn body(api_version: &str, kind: &str, object: &[Vec<u8>]) -> Vec<u8> {
    let type_meta = [part(1, api_version), part(2, kind)].concat();
    [MAGIC.to_vec(), part(1, type_meta), part(2, object.concat()), part(4, "application/json")].concat()
}

fn check(api_version: &str, kind: &str, object: &[Vec<u8>], expected: Value) {
    let decoded = decode(&body(api_version, kind, object)).unwrap();
    let mut whole = json!({"kind": kind, "apiVersion": api_version});
    whole.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
    assert_eq!(decoded.object, whole);
    assert_eq!(decoded.unknown, [""; 0]);
}

#[test]
fn objects() {
    let metadata = [part(1, "a"), part(2, ""), part(8, "")].concat();
    let pair = |key: &str, value: &[u8]| [part(1, key), part(2, value)].concat();
    check(
        "v1",
        "ConfigMap",
        &[
            part(1, &metadata),
            part(2, pair("x", b"y")),
            part(2, pair("empty", b"")),
            part(3, pair("b", &[0xff])),
            number(4, 0),
        ],
        json!({
            "metadata": {"name": "a"}, "data": {"x": "y", "empty": ""}, "binaryData": {"b": "/w=="},
            "immutable": false,
        }),
    );
}

#[test]
fn zeros_count_only_where_go_has_a_pointer() {
    let spec = [number(1, 0), number(5, 0), number(7, 0)].concat();
    check("apps/v1", "Deployment", &[part(2, &spec)], json!({"spec": {"replicas": 0}}));
}

#[test]
fn inlined_fields() {
    let volume = [part(1, "v"), part(2, part(2, part(1, "Memory")))].concat();
    check(
        "v1",
        "Pod",
        &[part(2, part(1, volume))],
        json!({"spec": {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}}),
    );
}

#[test]
fn special_types() {
    let int = [number(1, 0), number(2, 80), part(3, "")].concat();
    let text = [number(1, 1), number(2, 0), part(3, "http")].concat();
    let port = |target: &[u8]| part(1, part(4, target));
    check(
        "v1",
        "Service",
        &[part(2, [port(&int), port(&text)].concat())],
        json!({"spec": {"ports": [{"targetPort": 80}, {"targetPort": "http"}]}}),
    );
    let cpu = [part(1, "cpu"), part(2, part(1, "500m"))].concat();
    check("v1", "ResourceQuota", &[part(2, part(1, cpu))], json!({"spec": {"hard": {"cpu": "500m"}}}));
    let time = [number(1, 1), number(2, 5)].concat();
    check(
        "coordination.k8s.io/v1",
        "Lease",
        &[part(2, part(4, &time))],
        json!({"spec": {"renewTime": "1970-01-01T00:00:01.000000Z"}}),
    );
    check("v1", "Event", &[part(6, &time)], json!({"firstTimestamp": "1970-01-01T00:00:01Z"}));
    check("apps/v1", "ControllerRevision", &[part(2, part(1, r#"{"a":1}"#))], json!({"data": {"a": 1}}));
    let extra = [part(1, "k"), part(2, [part(1, "a"), part(1, "b")].concat())].concat();
    check(
        "authentication.k8s.io/v1",
        "TokenReview",
        &[part(3, part(2, part(4, extra)))],
        json!({"status": {"user": {"extra": {"k": ["a", "b"]}}}}),
    );
}

#[test]
fn options_of_a_delete_belong_to_every_group() {
    check(
        "apps/v1",
        "DeleteOptions",
        &[number(1, 0), part(4, "Orphan")],
        json!({
            "gracePeriodSeconds": 0, "propagationPolicy": "Orphan",
        }),
    );
}

#[test]
fn fields_of_the_future_are_told() {
    let decoded = decode(&body("v1", "ConfigMap", &[part(1, part(15, "x")), part(9, "")])).unwrap();
    assert_eq!(decoded.unknown, ["unknown field number 15 in metadata was dropped: send JSON to keep it"]);
}

#[test]
fn bad_bodies() {
    assert_eq!(decode(b"{}"), Err(ProtobufError::NoMark));
    let unknown = decode(&body("example.com/v1", "Thing", &[]));
    assert!(matches!(unknown, Err(ProtobufError::UnknownKind { .. })), "{unknown:?}");
    for (object, expected) in [
        (vec![0x0a, 5, b'x'], Malformed::Truncated),
        (vec![0xff; 11], Malformed::LongNumber),
        (vec![0x0b], Malformed::WireType),
        (number(1, 1), Malformed::Mismatch),
        (part(1, part(1, [0xff])), Malformed::NotUtf8),
    ] {
        assert_eq!(decode(&body("v1", "ConfigMap", &[object])), Err(ProtobufError::Malformed(expected)));
    }
}

#[test]
fn nesting_is_bounded() {
    // A schema below `not` below `not` below ...
    let mut schema: Vec<u8> = Vec::new();
    for _ in 0..10_000 {
        let mut outer = vec![0xe2, 0x01];
        let mut length = schema.len();
        while length >= 0x80 {
            outer.push(length as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.extend(schema);
        schema = outer;
    }
    let message = MESSAGES.get(&("apiextensions.v1", "JSONSchemaProps")).unwrap();
    let result = Decoder::default().fill(message, &schema, &mut serde_json::Map::new());
    assert_eq!(result, Err(Malformed::TooDeep));
}

#[test]
fn the_table_is_closed() {
    for (name, message) in MESSAGES.iter() {
        for ty in message.types() {
            if let Type::Message(inner) = ty {
                assert!(MESSAGES.contains_key(&inner), "{name:?} names {inner:?}");
            }
        }
    }
}

/// Kinds newer than the table: clients must send them as JSON.
const JSON_ONLY: [&str; 5] = [
    "ClusterTrustBundle",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "PodCertificateRequest",
    "StorageVersionMigration",
];

#[test]
fn every_common_kind_is_in_the_table() {
    for resource in kinds::all() {
        let built_in = matches!(resource.definition, Definition::BuiltIn(_));
        if !built_in || resource.group == "resource.k8s.io" || JSON_ONLY.contains(&&*resource.kind) {
            continue;
        }
        let api_version = match &*resource.group {
            "" => resource.version.to_string(),
            group => format!("{group}/{}", resource.version),
        };
        let decoded = decode(&body(&api_version, &resource.kind, &[]));
        assert!(decoded.is_ok(), "{api_version} {}: {decoded:?}", resource.kind);
    }
}

proptest! {
    #[test]
    fn anything_may_be_sent(object in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode(&body("v1", "Pod", &[object.clone()]));
        let _ = decode(&[MAGIC, &object].concat());
    }
}
