//! Bodies that nobody honest sends: an error or a value, never a panic, never long.

use proptest::prelude::*;

use super::{body, bytes, message, number, varint};
use crate::message::{MAX_DEPTH, MAX_VALUES};
use crate::{MAGIC, decode};

#[track_caller]
fn check(api_version: &str, kind: &str, object: Vec<u8>, expected: &str) {
    let got = decode(&body(api_version, kind, &object)).map_err(|e| e.to_string());
    assert_eq!(got.err().as_deref(), Some(expected));
}

#[test]
fn bytes_that_make_no_sense() {
    check("v1", "Pod", vec![0x0a], "core.v1.Pod: the bytes end too early");
    check("v1", "Pod", message(1, [vec![0x0a, 9]]), "meta.v1.ObjectMeta: the bytes end too early");
    check("v1", "Pod", number(1, 3), "core.v1.Pod.metadata: the wire type does not fit the field");
    check(
        "v1",
        "Pod",
        message(1, [number(1, 3)]),
        "meta.v1.ObjectMeta.name: the wire type does not fit the field",
    );
    check("v1", "Pod", message(1, [bytes(1, [0xff])]), "meta.v1.ObjectMeta.name: the text is not UTF-8");
    check(
        "v1",
        "Pod",
        message(1, [bytes(7, "x")]),
        "meta.v1.ObjectMeta.generation: the wire type does not fit the field",
    );
    check("v1", "ConfigMap", number(2, 1), "core.v1.ConfigMap.data: the wire type does not fit the field");
    check("v1", "ConfigMap", bytes(2, [0x0a, 4]), "core.v1.ConfigMap.data: the bytes end too early");
    check("v1", "Pod", vec![0x0b], "core.v1.Pod: wire type 3 is not in use");
}

#[test]
fn envelopes_that_make_no_sense() {
    for envelope in [&[0x0a_u8][..], &[0x0a, 0x02, 0x0a, 0x05], &[0x08, 0x01], &[0x12, 0x80]] {
        let got = decode(&[MAGIC, envelope].concat()).map_err(|e| e.to_string());
        assert!(got.as_ref().is_err_and(|e| e.starts_with("runtime.Unknown: ")), "{got:?}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| {
        let schema = (0..levels).fold(Vec::new(), |inner, _| bytes(28, inner));
        message(2, [message(7, [message(4, [bytes(1, schema)])])])
    };
    let (group, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    // The definition, its spec, the version, its schema and the outermost properties come first.
    assert!(decode(&body(group, kind, &nested(MAX_DEPTH - 5))).is_ok());
    let expected = format!("apiextensions.v1.JSONSchemaProps: it nests deeper than {MAX_DEPTH} levels");
    check(group, kind, nested(MAX_DEPTH - 4), &expected);
    check(group, kind, nested(10_000), &expected);
}

#[test]
fn the_number_of_values_is_bounded() {
    let many = message(2, [bytes(2, b"").repeat(MAX_VALUES)]);
    let expected = format!("core.v1.PodSpec.containers: the object has more than {MAX_VALUES} values");
    let got = decode(&body("v1", "Pod", &many)).map_err(|e| e.to_string()).err();
    assert!(got.as_deref() == Some(&expected) || got.is_some_and(|e| e.ends_with("values")));
}

#[test]
fn repeating_a_field_costs_its_size_only() {
    // Were each repetition to copy what was there before, this would take minutes.
    let label = |i: usize| message(11, [bytes(1, format!("k{i}")), bytes(2, "")]);
    let labels: Vec<u8> = (0..20_000).flat_map(|i| bytes(1, label(i))).collect();
    let got = decode(&body("v1", "Pod", &labels)).unwrap();
    assert_eq!(got.object["metadata"]["labels"].as_object().unwrap().len(), 20_000);
}

const KINDS: [(&str, &str); 6] = [
    ("v1", "Pod"),
    ("v1", "Node"),
    ("apps/v1", "StatefulSet"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("authorization.k8s.io/v1", "SubjectAccessReview"),
    ("coordination.k8s.io/v1", "Lease"),
];

/// Well-formed fields with low numbers, nested: they get further than random bytes.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        (1_u32..45, any::<i64>()).prop_map(|(field, value)| number(field, value)),
        (1_u32..45, "[a-z{}\"0-9]{0,4}").prop_map(|(field, text)| bytes(field, text)),
        (1_u32..45, any::<u64>()).prop_map(|(field, bits)| super::double(field, f64::from_bits(bits))),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        (1_u32..45, prop::collection::vec(inner, 0..6))
            .prop_map(|(field, parts)| bytes(field, parts.concat()))
    })
}

proptest! {
    #[test]
    fn random_bytes(content: Vec<u8>, kind in 0..KINDS.len()) {
        let _ = decode(&content);
        let _ = decode(&[MAGIC, &content].concat());
        let _ = decode(&body(KINDS[kind].0, KINDS[kind].1, &content));
    }

    #[test]
    fn random_fields(parts in prop::collection::vec(fields(), 0..8), kind in 0..KINDS.len()) {
        if let Ok(got) = decode(&body(KINDS[kind].0, KINDS[kind].1, &parts.concat())) {
            prop_assert!(got.object.is_object());
        }
    }

    #[test]
    fn every_prefix_of_a_body(cut in 0_usize..60) {
        let whole = body("v1", "Pod", &message(1, [bytes(1, "name"), bytes(3, "namespace")]));
        let _ = decode(&whole[..cut.min(whole.len())]);
    }

    #[test]
    fn numbers(value: u64) {
        let mut reader = crate::wire::Reader::new(&[]);
        prop_assert!(reader.next().unwrap().is_none());
        let encoded = varint(value);
        prop_assert_eq!(crate::wire::Reader::new(&encoded).varint(), Ok(value));
    }
}
