//! Schemas for tests, built in a few words.

use std::sync::Arc;

use minik8s_schema::{ListType, Schema, StrategicMerge, Type};
use serde_json::Value;

pub fn object<const N: usize>(fields: [(&str, Schema); N]) -> Schema {
    let fields = fields.into_iter().map(|(name, schema)| (name.into(), Arc::new(schema))).collect();
    Schema { ty: Type::Object, fields, ..Schema::default() }
}

pub fn map(values: Schema) -> Schema {
    Schema { ty: Type::Object, values: Some(Arc::new(values)), ..Schema::default() }
}

pub fn string() -> Schema {
    Schema { ty: Type::String, ..Schema::default() }
}

pub fn integer() -> Schema {
    Schema { ty: Type::Integer, ..Schema::default() }
}

pub fn anything() -> Schema {
    Schema { preserve_unknown: true, ..Schema::default() }
}

pub fn atomic(schema: Schema) -> Schema {
    Schema { atomic: true, ..schema }
}

pub fn with_default(schema: Schema, default: Value) -> Schema {
    Schema { default: Some(default), ..schema }
}

fn list(items: Schema, list: ListType, key: Option<&str>, merge: bool) -> Schema {
    let merge = StrategicMerge { merge, key: key.map(Into::into), ..StrategicMerge::default() };
    Schema { ty: Type::Array, items: Some(Arc::new(items)), list, merge, ..Schema::default() }
}

pub fn atomic_list(items: Schema) -> Schema {
    list(items, ListType::Atomic, None, false)
}

pub fn set(items: Schema) -> Schema {
    list(items, ListType::Set, None, true)
}

/// A list of objects told apart by `keys`; strategic merge goes by the first.
pub fn keyed(items: Schema, keys: &[&str]) -> Schema {
    let all = keys.iter().map(|key| (*key).into()).collect();
    list(items, ListType::Map(all), keys.first().copied(), true)
}

pub fn metadata() -> Schema {
    object([
        ("name", string()),
        ("namespace", string()),
        ("uid", string()),
        ("resourceVersion", string()),
        ("labels", map(string())),
        ("annotations", map(string())),
        ("finalizers", set(string())),
        ("ownerReferences", keyed(anything(), &["uid"])),
        ("managedFields", atomic_list(anything())),
    ])
}

fn container() -> Schema {
    let port = object([
        ("containerPort", integer()),
        ("protocol", with_default(string(), "TCP".into())),
        ("name", string()),
    ]);
    let env = object([("name", string()), ("value", string())]);
    object([
        ("name", string()),
        ("image", string()),
        ("args", atomic_list(string())),
        ("ports", keyed(port, &["containerPort", "protocol"])),
        ("env", keyed(env, &["name"])),
    ])
}

/// Something like a Deployment: one of each way to merge.
pub fn deployment() -> Schema {
    let volume =
        object([("name", string()), ("emptyDir", object([("medium", string())])), ("hostPath", anything())]);
    let strategy = object([("type", string()), ("rollingUpdate", object([("maxSurge", integer())]))]);
    object([
        ("apiVersion", string()),
        ("kind", string()),
        ("metadata", metadata()),
        (
            "spec",
            object([
                ("replicas", integer()),
                ("paused", Schema { ty: Type::Boolean, ..Schema::default() }),
                ("strategy", strategy),
                ("selector", atomic(object([("matchLabels", map(string()))]))),
                (
                    "template",
                    object([
                        ("metadata", metadata()),
                        (
                            "spec",
                            object([
                                ("containers", keyed(container(), &["name"])),
                                ("volumes", keyed(volume, &["name"])),
                                ("nodeSelector", atomic(map(string()))),
                            ]),
                        ),
                    ]),
                ),
                ("extra", anything()),
            ]),
        ),
        ("status", object([("readyReplicas", integer()), ("conditions", keyed(anything(), &["type"]))])),
    ])
}
