//! Validates an object of a custom kind: types, required fields, rules and list keys.
//!
//! The wording is upstream's, because users search for it and tools match it. Every problem is reported,
//! not only the first, up to a bound. Expressions in CEL are evaluated elsewhere: they need an interpreter
//! and a cost budget, this walk needs neither.

mod lists;
mod numbers;

use serde_json::{Map, Value};

use crate::trail::Trail;
use crate::{FieldErrors, Path, Rules, Schema, Type, format};

/// More than this is not listed: a hostile body must not make a long answer.
const MAX_REPORTED: usize = 100;

impl Schema {
    /// Adds what is wrong with `value`, which stands at `base`.
    pub fn validate(&self, value: &Value, base: &Path, errors: &mut FieldErrors) {
        Validation { errors }.node(self, value, &Trail::Base(base));
    }

    fn accepts(&self, value: &Value, trail: &Trail<'_>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        Validation { errors: &mut errors }.node(self, value, trail);
        errors
    }
}

struct Validation<'a> {
    errors: &'a mut FieldErrors,
}

impl Validation<'_> {
    fn node(&mut self, schema: &Schema, value: &Value, trail: &Trail<'_>) {
        if value.is_null() && schema.nullable || self.errors.iter().len() >= MAX_REPORTED {
            return;
        }
        if !has_type(schema.ty, value) {
            return self.wrong_type(type_name(value), type_words(schema.ty), trail);
        }
        match value {
            Value::Object(map) => self.object(schema, map, trail),
            Value::Array(list) => {
                if let Some(items) = &schema.items {
                    for (index, element) in list.iter().enumerate() {
                        self.node(items, element, &Trail::Index(trail, index));
                    }
                }
                lists::check_keys(&schema.list, schema.items.as_deref(), list, trail, self.errors);
            }
            Value::String(text) => {
                if let Some(name) = schema.format.as_deref().filter(|name| !format::matches(name, text)) {
                    self.wrong_type(text, name, trail);
                }
            }
            Value::Number(number) => {
                let format = schema.format.as_deref().unwrap_or_default();
                if !numbers::fits(format, number) {
                    let ty = type_words(schema.ty);
                    self.invalid(value, &format!("must be of type {ty} with format {format}"), trail);
                }
            }
            _ => {}
        }
        if let Some(rules) = &schema.rules {
            self.rules(rules, value, trail);
            self.branches(rules, value, trail);
        }
    }

    fn object(&mut self, schema: &Schema, map: &Map<String, Value>, trail: &Trail<'_>) {
        for name in &schema.required {
            if !map.contains_key(name.as_ref()) {
                self.errors.required(trail.path().field(name), "");
            }
        }
        if schema.embedded_resource {
            for name in ["apiVersion", "kind"] {
                if map.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                    self.errors.required(trail.path().field(name), "must not be empty");
                }
            }
        }
        for (name, value) in map {
            match (schema.fields.get(name.as_str()), &schema.values) {
                (Some(field), _) => self.node(field, value, &Trail::Field(trail, name)),
                (None, Some(values)) => self.node(values, value, &Trail::Key(trail, name)),
                (None, None) => {}
            }
        }
    }

    fn rules(&mut self, rules: &Rules, value: &Value, trail: &Trail<'_>) {
        if !rules.allowed.is_empty() && !rules.allowed.contains(value) {
            let allowed: Vec<String> = rules
                .allowed
                .iter()
                .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
                .collect();
            let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
            self.errors.not_supported(trail.path(), value.clone(), &allowed);
        }
        match value {
            Value::String(text) => self.text(rules, text, trail),
            Value::Number(number) => {
                for broken in numbers::broken_rules(rules, number) {
                    self.invalid(value, &broken, trail);
                }
            }
            Value::Array(list) => {
                let count = list.len() as u64;
                if let Some(min) = rules.min_items.filter(|&min| count < min) {
                    self.invalid(value, &format!("should have at least {min} items"), trail);
                }
                if let Some(max) = rules.max_items.filter(|&max| count > max) {
                    self.errors.too_many(trail.path(), list.len(), max as usize);
                }
                if rules.unique_items && lists::has_duplicates(list) {
                    self.invalid(value, "shouldn't contain duplicates", trail);
                }
            }
            Value::Object(map) => {
                let count = map.len() as u64;
                if let Some(min) = rules.min_properties.filter(|&min| count < min) {
                    self.invalid(value, &format!("should have at least {min} properties"), trail);
                }
                if let Some(max) = rules.max_properties.filter(|&max| count > max) {
                    self.errors.too_many(trail.path(), map.len(), max as usize);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, rules: &Rules, text: &str, trail: &Trail<'_>) {
        if rules.min_length.is_some() || rules.max_length.is_some() {
            let count = text.chars().count() as u64;
            if let Some(min) = rules.min_length.filter(|&min| count < min) {
                self.invalid(&text.into(), &format!("should be at least {min} chars long"), trail);
            }
            if let Some(max) = rules.max_length.filter(|&max| count > max) {
                self.errors.too_long(trail.path(), max as usize);
            }
        }
        if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
            self.invalid(&text.into(), &format!("should match '{}'", pattern.source()), trail);
        }
    }

    fn branches(&mut self, rules: &Rules, value: &Value, trail: &Trail<'_>) {
        for branch in &rules.all_of {
            self.node(branch, value, trail);
        }
        if !rules.any_of.is_empty() {
            let results: Vec<FieldErrors> = rules.any_of.iter().map(|s| s.accepts(value, trail)).collect();
            if results.iter().all(|errors| !errors.is_empty()) {
                self.no_branch(results, "must validate at least one schema (anyOf)", trail);
            }
        }
        if !rules.one_of.is_empty() {
            let results: Vec<FieldErrors> = rules.one_of.iter().map(|s| s.accepts(value, trail)).collect();
            match results.iter().filter(|errors| errors.is_empty()).count() {
                0 => self.no_branch(
                    results,
                    "must validate one and only one schema (oneOf). Found none valid",
                    trail,
                ),
                1 => {}
                n => self.junction(
                    &format!("must validate one and only one schema (oneOf). Found {n} valid alternatives"),
                    trail,
                ),
            }
        }
        if rules.not.as_ref().is_some_and(|not| not.accepts(value, trail).is_empty()) {
            self.junction("must not validate the schema (not)", trail);
        }
    }

    /// No branch fits: says so, and what the branch that came closest misses.
    fn no_branch(&mut self, results: Vec<FieldErrors>, what: &str, trail: &Trail<'_>) {
        self.junction(what, trail);
        let nearest = results.into_iter().min_by_key(|errors| errors.iter().len());
        for error in nearest.into_iter().flatten() {
            self.errors.push(error.kind, error.path, error.message);
        }
    }

    fn junction(&mut self, what: &str, trail: &Trail<'_>) {
        let path = trail.path();
        let detail = format!("\"{}\" {what}", path.as_str());
        self.errors.invalid(path, "", detail);
    }

    fn wrong_type(&mut self, found: &str, expected: &str, trail: &Trail<'_>) {
        let path = trail.path();
        let detail = format!("{} in body must be of type {expected}: {}", path.as_str(), Value::from(found));
        self.errors.type_invalid(path, found, detail);
    }

    fn invalid(&mut self, value: &Value, what: &str, trail: &Trail<'_>) {
        let path = trail.path();
        let detail = format!("{} in body {what}", path.as_str());
        // Lists and objects are shown by their type: their text says nothing about the problem.
        let shown =
            if value.is_array() || value.is_object() { type_name(value).into() } else { value.clone() };
        self.errors.invalid(path, shown, detail);
    }
}

fn has_type(ty: Type, value: &Value) -> bool {
    match ty {
        Type::Any => true,
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Boolean => value.is_boolean(),
        Type::Number => value.is_number(),
        Type::Integer => numbers::is_integer(value),
        Type::IntOrString => value.is_string() || numbers::is_integer(value),
    }
}

fn type_words(ty: Type) -> &'static str {
    match ty {
        Type::Any => "any",
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Boolean => "boolean",
        Type::Number => "number",
        Type::Integer => "integer",
        Type::IntOrString => "integer,string",
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
