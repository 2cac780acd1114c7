use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn set(fields: Value) -> FieldSet {
    FieldSet::from_fields_v1(&fields).unwrap()
}

fn shown(set: &FieldSet) -> Vec<String> {
    set.paths().iter().map(ToString::to_string).collect()
}

#[test]
fn paths_read_like_upstream() {
    let set = set(json!({
        "f:metadata": {"f:labels": {".": {}, "f:a/b": {}}, "f:finalizers": {"v:\"x\"": {}}},
        "f:spec": {"f:ports": {"k:{\"protocol\":\"TCP\",\"port\":80}": {".": {}, "f:port": {}}, "i:3": {}}},
    }));
    assert_eq!(
        shown(&set),
        [
            ".metadata.finalizers[=\"x\"]",
            ".metadata.labels",
            ".metadata.labels.a/b",
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=80,protocol=\"TCP\"].port",
            ".spec.ports[3]",
        ]
    );
    assert!(set.paths().iter().all(|path| set.contains(path)));
    assert!(!set.contains(&FieldPath(vec![PathElement::field("spec")])));
}

#[test]
fn bad_documents_are_refused() {
    for bad in
        [json!([]), json!({"f:a": 1}), json!({"noprefix": {}}), json!({"k:[]": {}}), json!({"i:x": {}})]
    {
        assert!(FieldSet::from_fields_v1(&bad).is_err(), "{bad}");
        assert!(serde_json::from_str::<FieldSet>(&bad.to_string()).is_err(), "{bad}");
    }
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"f:a": deep});
    }
    assert_eq!(FieldSet::from_fields_v1(&deep), Err(FieldsV1Error::TooDeep));
    let later = json!({"z:unknown": {"anything": 1}});
    assert!(serde_json::from_str::<FieldSet>(&later.to_string()).unwrap().is_empty());
    assert!(set(later).is_empty(), "later kinds of element are skipped");
}

#[test]
fn difference_looks_at_members_only() {
    let parent = set(json!({"f:a": {}}));
    let child = set(json!({"f:a": {"f:b": {}}}));
    assert_eq!(parent.difference(&child), parent);
    assert_eq!(child.difference(&parent), child);
    let both = parent.union(&child);
    assert_eq!(both.to_fields_v1(), json!({"f:a": {".": {}, "f:b": {}}}));
    assert_eq!(both.difference(&parent), child);
    assert_eq!(both.intersection(&parent), parent);
}

fn elements() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c]{1,2}".prop_map(|name| PathElement::field(&name)),
        (0..3i64)
            .prop_map(|n| PathElement::Key(vec![("name".into(), json!(n)), ("port".into(), json!("x"))])),
        "[a\"\\\\]{0,2}".prop_map(|text| PathElement::Value(json!(text))),
        (0..3i64).prop_map(PathElement::Index),
    ]
}

pub(crate) fn sets() -> impl Strategy<Value = FieldSet> {
    let leaf = Just(FieldSet::default());
    leaf.prop_recursive(4, 24, 4, |below| {
        prop::collection::vec((elements(), any::<bool>(), below), 0..4).prop_map(|nodes| {
            nodes.into_iter().fold(FieldSet::default(), |set, (element, member, children)| {
                let mut one = FieldSet::default();
                one.push_owned(element, member, children);
                set.union(&one)
            })
        })
    })
}

proptest! {
    #[test]
    fn fields_v1_round_trip(set in sets()) {
        let printed = set.to_fields_v1();
        let read = FieldSet::from_fields_v1(&printed).unwrap();
        prop_assert_eq!(&read, &set);
        prop_assert_eq!(read.to_fields_v1().to_string(), printed.to_string());
        let text = serde_json::to_string(&set).unwrap();
        prop_assert_eq!(&text, &printed.to_string());
        prop_assert_eq!(serde_json::from_str::<FieldSet>(&text).unwrap(), set);
    }

    #[test]
    fn sets_obey_algebra(a in sets(), b in sets()) {
        let union = a.union(&b);
        prop_assert_eq!(&union, &b.union(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&union).is_empty());
        prop_assert!(a.is_subset(&union));
        prop_assert_eq!(a.is_subset(&b), a.difference(&b).is_empty());
        prop_assert_eq!(union.intersection(&a), a);
    }
}
