//! Compiled schemas, one per type in the whole process: PodSpec is the same tree in every kind.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_schema::Schema;
use schemars::JsonSchema;
use serde_json::{Map, Value};

use super::custom;
use super::definitions::{Generator, TypeFn};
use crate::{Definition, Resource};

/// The schema of a kind's objects. Compiled when first asked for.
pub fn schema_of(resource: &Resource) -> Arc<Schema> {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    match &resource.definition {
        Definition::BuiltIn(ty) => cache.built_in(*ty),
        Definition::Custom(schema) => cache.custom(schema),
    }
}

/// The schema of a type that is no resource: DeleteOptions, Scale, Eviction and other bodies.
pub fn schema_for<T: JsonSchema>() -> Arc<Schema> {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.built_in(|generator| generator.subschema_for::<T>())
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(|| {
    Mutex::new(Cache { generator: Generator::new(), compiled: HashMap::new(), custom: HashMap::new() })
});

struct Cache {
    generator: Generator,
    compiled: HashMap<String, Arc<Schema>>,
    /// By the address of the definition's schema, which the weak pointer keeps from being used again.
    custom: HashMap<usize, (Weak<Value>, Arc<Schema>)>,
}

impl Cache {
    fn built_in(&mut self, ty: TypeFn) -> Arc<Schema> {
        let mut sources = HashMap::new();
        let name = self.generator.add(ty, &mut |name, definition| {
            sources.insert(name, definition);
        });
        let mut compiler = Compiler { sources, pending: Vec::new(), compiled: &mut self.compiled };
        compiler.type_named(&name).unwrap_or_else(open)
    }

    fn custom(&mut self, schema: &Arc<Value>) -> Arc<Schema> {
        let address = Arc::as_ptr(schema) as usize;
        if let Some((_, compiled)) = self.custom.get(&address) {
            return compiled.clone();
        }
        self.custom.retain(|_, (source, _)| source.strong_count() > 0);
        let object_meta = self.built_in(|generator| generator.subschema_for::<ObjectMeta>());
        let compiled = custom::compile(schema, &object_meta);
        self.custom.insert(address, (Arc::downgrade(schema), compiled.clone()));
        compiled
    }
}

struct Compiler<'a> {
    sources: HashMap<String, Map<String, Value>>,
    /// Types whose definition is being compiled, innermost last.
    pending: Vec<String>,
    compiled: &'a mut HashMap<String, Arc<Schema>>,
}

impl Compiler<'_> {
    fn type_named(&mut self, name: &str) -> Option<Arc<Schema>> {
        if let Some(schema) = self.compiled.get(name) {
            return Some(schema.clone());
        }
        // A type inside itself: a tree cannot say that, so below anything goes.
        if self.pending.iter().any(|pending| pending == name) {
            return Some(open());
        }
        let source = Value::Object(self.sources.remove(name)?);
        self.pending.push(name.to_owned());
        let schema = Schema::compile(&source, &mut |name| self.type_named(name)).unwrap_or_else(|_| open());
        self.pending.pop();
        self.compiled.insert(name.to_owned(), schema.clone());
        Some(schema)
    }
}

fn open() -> Arc<Schema> {
    static OPEN: LazyLock<Arc<Schema>> =
        LazyLock::new(|| Arc::new(Schema { preserve_unknown: true, ..Schema::default() }));
    OPEN.clone()
}
