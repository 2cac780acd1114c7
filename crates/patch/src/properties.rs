//! What must hold for every schema and every object.

use jiff::Timestamp;
use minik8s_schema::{ListType, Schema, Type};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::apply::{ApplyError, server_side};
use crate::managed::{Entries, Manager, managed_fields, track};
use crate::sample::*;
use crate::typed::compare;
use crate::{merge, strategic};

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn manager(name: &str) -> Manager {
    Manager::main(name, "v1", false)
}

/// Schemas of every way to merge, nested.
fn schemas() -> impl Strategy<Value = Schema> {
    let leaf = prop_oneof![
        Just(string()),
        Just(integer()),
        Just(anything()),
        Just(set(string())),
        Just(atomic_list(string()))
    ];
    let inner = leaf.prop_recursive(3, 24, 3, |below| {
        prop_oneof![
            (below.clone(), below.clone()).prop_map(|(a, b)| object([("a", a), ("b", b)])),
            (below.clone(), below.clone()).prop_map(|(a, b)| atomic(object([("a", a), ("b", b)]))),
            below.clone().prop_map(map),
            (below.clone(), below).prop_map(|(a, b)| {
                let key = with_default(string(), json!("x"));
                keyed(object([("key", key), ("a", a), ("b", b)]), &["key"])
            }),
        ]
    });
    (inner.clone(), inner).prop_map(|(spec, data)| {
        object([("apiVersion", string()), ("metadata", metadata()), ("spec", spec), ("data", data)])
    })
}

/// Throws of a die decide what an object of a schema looks like.
struct Dice(std::vec::IntoIter<u8>);

impl Dice {
    fn throw(&mut self, sides: u8) -> u8 {
        self.0.next().unwrap_or(0) % sides
    }

    fn value(&mut self, schema: &Schema) -> Value {
        match schema.ty {
            Type::Object if schema.values.is_some() => self.entries(schema),
            Type::Object => {
                let mut fields = Map::new();
                for (name, field) in &schema.fields {
                    if self.throw(3) > 0 {
                        fields.insert(name.to_string(), self.value(field));
                    }
                }
                Value::Object(fields)
            }
            Type::Array => self.list(schema),
            Type::Any if self.throw(2) == 0 => json!({"x": self.throw(3), "y": {"z": self.throw(2)}}),
            Type::String => json!(["p", "q", "r"][usize::from(self.throw(3))]),
            _ => json!(self.throw(3)),
        }
    }

    fn entries(&mut self, schema: &Schema) -> Value {
        let mut fields = Map::new();
        for name in ["m", "n", "o"] {
            if let (Some(values), true) = (&schema.values, self.throw(2) == 0) {
                fields.insert(name.to_owned(), self.value(values));
            }
        }
        Value::Object(fields)
    }

    /// Elements have identities, each its own.
    fn list(&mut self, schema: &Schema) -> Value {
        let mut names = vec!["x", "y", "z"];
        let mut list = Vec::new();
        for _ in 0..self.throw(4) {
            let name = names.remove(usize::from(self.throw(names.len() as u8)));
            list.push(match (&schema.list, &schema.items) {
                (ListType::Map(_), Some(items)) => {
                    let mut item = self.value(items);
                    item["key"] = json!(name);
                    item
                }
                _ => json!(name),
            });
        }
        Value::Array(list)
    }

    /// A whole object.
    fn object(&mut self, schema: &Schema) -> Value {
        let mut object = json!({"apiVersion": "v1", "metadata": {"name": "o"}});
        for name in ["spec", "data"] {
            if self.throw(4) > 0 {
                object[name] = self.value(&schema.fields[name]);
            }
        }
        if self.throw(2) == 0 {
            object["metadata"]["labels"] = self.value(&map(string()));
        }
        object
    }
}

fn dice() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..120)
}

fn objects<const N: usize>() -> impl Strategy<Value = (Schema, [Value; N])> {
    (schemas(), prop::collection::vec(dice(), N)).prop_map(|(schema, throws)| {
        let mut throws = throws.into_iter();
        let objects =
            std::array::from_fn(|_| Dice(throws.next().unwrap_or_default().into_iter()).object(&schema));
        (schema, objects)
    })
}

/// JSON that need not fit any schema, with names that mean something somewhere.
fn wild() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "apiVersion",
        "metadata",
        "managedFields",
        "labels",
        "finalizers",
        "spec",
        "replicas",
        "template",
        "containers",
        "name",
        "ports",
        "strategy",
        "extra",
        "status",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "f:spec",
        "fieldsV1",
        "operation",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!(1)),
        Just(json!("delete")),
        Just(json!("replace")),
        Just(json!("Apply")),
        Just(json!("apps/v1")),
        Just(json!([])),
        Just(json!({})),
    ];
    leaf.prop_recursive(6, 40, 5, move |below| {
        prop_oneof![
            prop::collection::vec(below.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names.clone(), below), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing((schema, [live, wish]) in objects::<2>()) {
        let mut live = live;
        track(None, &mut live, &schema, &manager("creator"), now());
        let first = server_side(Some(&live), &wish, &schema, &manager("m"), true, now()).unwrap();
        let again = server_side(Some(&first), &wish, &schema, &manager("m"), false, now()).unwrap();
        prop_assert_eq!(again.to_string(), first.to_string());
        let kept = wish.as_object().unwrap().keys().all(|name| first.get(name).is_some());
        prop_assert!(kept);
    }

    #[test]
    fn an_applier_removes_nothing_of_another((schema, [a, b, c]) in objects::<3>()) {
        let first = server_side(None, &a, &schema, &manager("a"), false, now()).unwrap();
        let both = server_side(Some(&first), &b, &schema, &manager("b"), true, now()).unwrap();
        match server_side(Some(&both), &c, &schema, &manager("a"), false, now()) {
            Ok(last) => {
                let entries = Entries::decode(managed_fields(&both)).unwrap().0;
                let theirs = entries.iter().find(|entry| entry.manager == "b").map(|entry| &entry.fields);
                let change = compare(&schema, &both, &last);
                if let Some(theirs) = theirs {
                    prop_assert!(change.sets().into_iter().all(|set| theirs.intersection(set).is_empty()));
                }
            }
            Err(error) => prop_assert!(matches!(error, ApplyError::Conflict(_)), "{}", error),
        }
    }

    #[test]
    fn what_one_manager_applied_is_gone_when_it_applies_nothing((schema, [wish]) in objects::<1>()) {
        let first = server_side(None, &wish, &schema, &manager("m"), false, now()).unwrap();
        let nothing = json!({"apiVersion": "v1", "metadata": {"name": "o"}});
        let last = server_side(Some(&first), &nothing, &schema, &manager("m"), false, now()).unwrap();
        prop_assert_eq!(last, nothing);
    }

    #[test]
    fn updates_are_tracked_to_the_field((schema, [old, new]) in objects::<2>()) {
        let mut old = old;
        track(None, &mut old, &schema, &manager("a"), now());
        let mut updated = new.clone();
        track(Some(&old), &mut updated, &schema, &manager("b"), now());
        let entries = Entries::decode(managed_fields(&updated)).unwrap().0;
        for pair in entries.windows(2) {
            prop_assert!(pair[0].fields.intersection(&pair[1].fields).is_empty(), "a field has one writer");
        }
        let mut again = updated.clone();
        track(Some(&updated), &mut again, &schema, &manager("c"), now());
        prop_assert_eq!(again, updated);
    }

    #[test]
    fn no_input_panics(a in wild(), b in wild(), c in wild()) {
        let schema = deployment();
        let mut tracked = b.clone();
        track(Some(&a), &mut tracked, &schema, &Manager::main("m", "apps/v1", true), now());
        let mut wish = c;
        if let Value::Object(fields) = &mut wish {
            fields.insert("apiVersion".to_owned(), json!("apps/v1"));
        }
        let manager = Manager::main("kubectl", "apps/v1", true);
        let _ = server_side(Some(&tracked), &wish, &schema, &manager, true, now());
        let mut patched = a.clone();
        let _ = strategic::apply(&schema, &b, &mut patched);
        merge::apply(&b, &mut patched).unwrap();
    }

    #[test]
    fn an_object_is_a_strategic_patch_of_itself((schema, [object]) in objects::<1>()) {
        let mut patched = object.clone();
        strategic::apply(&schema, &object, &mut patched).unwrap();
        prop_assert_eq!(patched.to_string(), object.to_string());
    }

    #[test]
    fn patching_twice_is_patching_once((schema, [object, patch]) in objects::<2>()) {
        let mut once = object.clone();
        strategic::apply(&schema, &patch, &mut once).unwrap();
        let mut twice = once.clone();
        strategic::apply(&schema, &patch, &mut twice).unwrap();
        prop_assert_eq!(twice.to_string(), once.to_string());
        let mut once = object;
        merge::apply(&patch, &mut once).unwrap();
        let mut twice = once.clone();
        merge::apply(&patch, &mut twice).unwrap();
        prop_assert_eq!(twice, once);
    }
}
