//! OpenAPI v3 JSON to a [`Schema`].
//!
//! References go through the caller's `resolve`, so that a type which many kinds use is compiled once and
//! shared. Descriptions are dropped: they are most of a definition's bytes and no walk reads them. Compiling
//! is lenient about what it does not know; whether a CustomResourceDefinition may be written so is for
//! [`crate::structural_errors`] to say.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Number, Value};

use crate::rules::Bound;
use crate::{ListType, Pattern, Rules, Schema, StrategicMerge, Type};

/// Deeper schemas are refused, so that every walk along a schema has a bounded stack.
pub(crate) const MAX_DEPTH: usize = 100;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CompileError {
    #[error("a schema must be an object, not {0}")]
    NotAnObject(String),
    #[error("the schema is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("no definition of {0:?}")]
    UnknownReference(String),
}

impl Schema {
    /// Compiles a schema. `resolve` gets the last segment of a `$ref`: `io.k8s.api.core.v1.PodSpec`.
    pub fn compile(
        json: &Value,
        resolve: &mut dyn FnMut(&str) -> Option<Arc<Schema>>,
    ) -> Result<Arc<Schema>, CompileError> {
        Compiler { resolve, patterns: HashMap::new() }.node(json, 0)
    }
}

struct Compiler<'a> {
    resolve: &'a mut dyn FnMut(&str) -> Option<Arc<Schema>>,
    /// Large definitions repeat the same few expressions.
    patterns: HashMap<String, Arc<Pattern>>,
}

impl Compiler<'_> {
    fn node(&mut self, json: &Value, depth: usize) -> Result<Arc<Schema>, CompileError> {
        if depth > MAX_DEPTH {
            return Err(CompileError::TooDeep);
        }
        let json = match json {
            Value::Object(json) => json,
            Value::Bool(true) => return Ok(shared(Schema { preserve_unknown: true, ..Schema::default() })),
            other => return Err(CompileError::NotAnObject(other.to_string())),
        };
        match reference(json) {
            Some(name) => self.referenced(name, json),
            None => self.inline(json, depth).map(shared),
        }
    }

    /// A `$ref`, shared as it is unless extensions beside it change how it is merged.
    fn referenced(&mut self, name: &str, json: &Map<String, Value>) -> Result<Arc<Schema>, CompileError> {
        let target = (self.resolve)(name).ok_or_else(|| CompileError::UnknownReference(name.to_owned()))?;
        let plain = |key: &str| matches!(key, "$ref" | "allOf" | "description" | "title");
        if json.keys().all(|key| plain(key)) {
            return Ok(target);
        }
        let mut schema = Schema::clone(&target);
        extensions(json, &mut schema);
        if schema == *target { Ok(target) } else { Ok(Arc::new(schema)) }
    }

    fn inline(&mut self, json: &Map<String, Value>, depth: usize) -> Result<Schema, CompileError> {
        let mut schema = Schema {
            ty: type_of(json),
            fields: self.fields(json.get("properties"), depth)?,
            values: match json.get("additionalProperties") {
                None | Some(Value::Bool(false)) => None,
                Some(values) => Some(self.node(values, depth + 1)?),
            },
            items: json.get("items").map(|items| self.node(items, depth + 1)).transpose()?,
            required: strings(json.get("required")),
            format: text(json, "format").filter(|&f| f != "int-or-string").map(Into::into),
            ..Schema::default()
        };
        extensions(json, &mut schema);
        let rules = self.rules(json, schema.ty, depth)?;
        schema.rules = (rules != Rules::default()).then(|| Box::new(rules));
        Ok(schema)
    }

    fn fields(
        &mut self,
        properties: Option<&Value>,
        depth: usize,
    ) -> Result<BTreeMap<Box<str>, Arc<Schema>>, CompileError> {
        let Some(Value::Object(properties)) = properties else { return Ok(BTreeMap::new()) };
        properties
            .iter()
            .map(|(name, json)| Ok((name.as_str().into(), self.node(json, depth + 1)?)))
            .collect()
    }

    fn rules(&mut self, json: &Map<String, Value>, ty: Type, depth: usize) -> Result<Rules, CompileError> {
        Ok(Rules {
            allowed: json.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern: text(json, "pattern").map(|source| self.pattern(source)),
            minimum: bound(json, "minimum", "exclusiveMinimum"),
            maximum: bound(json, "maximum", "exclusiveMaximum"),
            multiple_of: number(json, "multipleOf"),
            min_length: count(json, "minLength"),
            max_length: count(json, "maxLength"),
            min_items: count(json, "minItems"),
            max_items: count(json, "maxItems"),
            unique_items: flag(json, "uniqueItems"),
            min_properties: count(json, "minProperties"),
            max_properties: count(json, "maxProperties"),
            all_of: self.branches(json.get("allOf"), depth)?,
            any_of: match ty {
                Type::IntOrString if says_int_or_string(json.get("anyOf")) => Vec::new(),
                _ => self.branches(json.get("anyOf"), depth)?,
            },
            one_of: match ty {
                Type::IntOrString if says_int_or_string(json.get("oneOf")) => Vec::new(),
                _ => self.branches(json.get("oneOf"), depth)?,
            },
            not: json.get("not").map(|not| self.node(not, depth + 1)).transpose()?,
        })
    }

    fn branches(&mut self, json: Option<&Value>, depth: usize) -> Result<Vec<Arc<Schema>>, CompileError> {
        let branches = json.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        branches.iter().map(|branch| self.node(branch, depth + 1)).collect()
    }

    fn pattern(&mut self, source: &str) -> Arc<Pattern> {
        if let Some(pattern) = self.patterns.get(source) {
            return pattern.clone();
        }
        let pattern = Arc::new(Pattern::new(source));
        self.patterns.insert(source.to_owned(), pattern.clone());
        pattern
    }
}

/// The name behind `$ref`, or behind the `$ref` of a lone `allOf` (how OpenAPI 3.0 puts siblings beside it).
fn reference(json: &Map<String, Value>) -> Option<&str> {
    let target = match (json.get("$ref"), json.get("allOf").and_then(Value::as_array).map(Vec::as_slice)) {
        (Some(target), _) => target,
        (None, Some([only])) if !json.contains_key("type") => only.get("$ref")?,
        _ => return None,
    };
    target.as_str().map(|name| name.rsplit('/').next().unwrap_or(name))
}

fn type_of(json: &Map<String, Value>) -> Type {
    if flag(json, "x-kubernetes-int-or-string") || text(json, "format") == Some("int-or-string") {
        return Type::IntOrString;
    }
    match text(json, "type") {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    }
}

/// What may stand beside a `$ref` as well as in a schema of its own.
fn extensions(json: &Map<String, Value>, schema: &mut Schema) {
    schema.nullable |= flag(json, "nullable");
    schema.preserve_unknown |= flag(json, "x-kubernetes-preserve-unknown-fields");
    schema.embedded_resource |= flag(json, "x-kubernetes-embedded-resource");
    if let Some(default) = json.get("default") {
        schema.default = Some(default.clone());
    }
    match text(json, "x-kubernetes-map-type") {
        Some("atomic") => schema.atomic = true,
        Some("granular") => schema.atomic = false,
        _ => {}
    }
    match text(json, "x-kubernetes-list-type") {
        Some("set") => schema.list = ListType::Set,
        Some("map") => schema.list = ListType::Map(strings(json.get("x-kubernetes-list-map-keys"))),
        Some("atomic") => schema.list = ListType::Atomic,
        _ => {}
    }
    if let Some(strategy) = text(json, "x-kubernetes-patch-strategy") {
        let has = |wanted: &str| strategy.split(',').any(|part| part == wanted);
        schema.merge = StrategicMerge {
            merge: has("merge"),
            replace: has("replace"),
            retain_keys: has("retainKeys"),
            key: None,
        };
    }
    if let Some(key) = text(json, "x-kubernetes-patch-merge-key") {
        schema.merge.key = Some(key.into());
    }
}

/// The customary `anyOf: [{type: integer}, {type: string}]`, which the type already says.
fn says_int_or_string(branches: Option<&Value>) -> bool {
    let Some([first, second]) = branches.and_then(Value::as_array).map(Vec::as_slice) else { return false };
    let only_type =
        |branch: &Value, ty: &str| branch["type"] == ty && branch.as_object().is_some_and(|b| b.len() == 1);
    only_type(first, "integer") && only_type(second, "string")
        || only_type(first, "string") && only_type(second, "integer")
}

fn bound(json: &Map<String, Value>, limit: &str, exclusive: &str) -> Option<Bound> {
    number(json, limit).map(|limit| Bound { limit, exclusive: flag(json, exclusive) })
}

fn text<'a>(json: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    json.get(key).and_then(Value::as_str)
}

fn flag(json: &Map<String, Value>, key: &str) -> bool {
    json.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn number(json: &Map<String, Value>, key: &str) -> Option<Number> {
    json.get(key).and_then(Value::as_number).cloned()
}

fn count(json: &Map<String, Value>, key: &str) -> Option<u64> {
    json.get(key).and_then(Value::as_u64)
}

fn strings(json: Option<&Value>) -> Vec<Box<str>> {
    let list = json.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(Value::as_str).map(Into::into).collect()
}

/// Plain scalars are most of all nodes: each exists once in the process.
fn shared(schema: Schema) -> Arc<Schema> {
    static SCALARS: LazyLock<Vec<Arc<Schema>>> = LazyLock::new(|| {
        let plain = [
            (Type::String, None),
            (Type::Boolean, None),
            (Type::Integer, None),
            (Type::Integer, Some("int32")),
            (Type::Integer, Some("int64")),
            (Type::Number, None),
            (Type::Number, Some("double")),
            (Type::String, Some("date-time")),
            (Type::String, Some("byte")),
            (Type::IntOrString, None),
        ];
        let scalar = |(ty, format): (Type, Option<&str>)| {
            Arc::new(Schema { ty, format: format.map(Into::into), ..Schema::default() })
        };
        plain.into_iter().map(scalar).collect()
    });
    match SCALARS.iter().find(|known| ***known == schema) {
        Some(known) => known.clone(),
        None => Arc::new(schema),
    }
}

#[cfg(test)]
mod tests;
