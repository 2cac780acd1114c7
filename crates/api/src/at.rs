//! A value together with the way to it, so that no validation can name the wrong field.

use serde_json::Value;

use crate::{FieldErrors, Path, Quantity};

/// A place in an object. What is not there is `null`.
#[derive(Debug, Clone)]
pub struct At<'a> {
    pub path: Path,
    pub value: &'a Value,
}

impl<'a> At<'a> {
    pub fn root(object: &'a Value) -> Self {
        At { path: Path::root(), value: object }
    }

    pub fn field(&self, name: &str) -> Self {
        At { path: self.path.field(name), value: &self.value[name] }
    }

    /// Elements of a list; nothing for anything else.
    pub fn items(&self) -> impl Iterator<Item = At<'a>> + use<'a> {
        let path = self.path.clone();
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice);
        items.iter().enumerate().map(move |(i, value)| At { path: path.index(i), value })
    }

    /// Entries of a map; nothing for anything else.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a> {
        let path = self.path.clone();
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), At { path: path.key(key), value }))
    }

    /// The text, empty where there is none.
    pub fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub fn is_true(&self) -> bool {
        self.value.as_bool() == Some(true)
    }

    /// Neither missing nor an empty text, list or map.
    pub fn is_set(&self) -> bool {
        match self.value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => true,
        }
    }

    /// There at all, even if empty.
    pub fn exists(&self) -> bool {
        !self.value.is_null()
    }

    /// How many items or fields it has.
    pub fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn invalid(&self, errors: &mut FieldErrors, detail: impl AsRef<str>) {
        errors.invalid(self.path.clone(), self.value.clone(), detail);
    }

    /// One error per problem that a check of [`crate::format`] found.
    pub fn problems(&self, errors: &mut FieldErrors, problems: Vec<String>) {
        for problem in problems {
            self.invalid(errors, problem);
        }
    }

    pub fn required(&self, errors: &mut FieldErrors, detail: &str) {
        errors.required(self.path.clone(), detail);
    }

    pub fn forbidden(&self, errors: &mut FieldErrors, detail: impl AsRef<str>) {
        errors.forbidden(self.path.clone(), detail);
    }

    pub fn not_supported(&self, errors: &mut FieldErrors, supported: &[&str]) {
        errors.not_supported(self.path.clone(), self.value.clone(), supported);
    }

    pub fn duplicate(&self, errors: &mut FieldErrors) {
        errors.duplicate(self.path.clone(), self.value.clone());
    }

    /// Must be there and not empty. Says whether it is.
    pub fn need(&self, errors: &mut FieldErrors) -> bool {
        let set = self.is_set();
        if !set {
            self.required(errors, "");
        }
        set
    }

    /// Must be one of these, where it is set.
    pub fn one_of(&self, errors: &mut FieldErrors, supported: &[&str]) {
        if self.is_set() && !supported.contains(&self.text()) {
            self.not_supported(errors, supported);
        }
    }

    /// Must be there and one of these.
    pub fn need_one_of(&self, errors: &mut FieldErrors, supported: &[&str]) {
        if self.need(errors) {
            self.one_of(errors, supported);
        }
    }

    /// Must have this form, where it is set.
    pub fn has_form(&self, errors: &mut FieldErrors, form: fn(&str) -> Vec<String>) {
        if self.is_set() {
            self.problems(errors, form(self.text()));
        }
    }

    /// Must be there and have this form.
    pub fn need_form(&self, errors: &mut FieldErrors, form: fn(&str) -> Vec<String>) {
        if self.need(errors) {
            self.has_form(errors, form);
        }
    }

    /// Must be 0 or more, where it is set.
    pub fn not_negative(&self, errors: &mut FieldErrors) {
        if self.int().is_some_and(|n| n < 0) {
            self.invalid(errors, "must be greater than or equal to 0");
        }
    }

    /// Must be a quantity, where it is set. Gives it.
    pub fn quantity(&self, errors: &mut FieldErrors) -> Option<Quantity> {
        if !self.exists() {
            return None;
        }
        let parsed = Quantity::from_json(self.value);
        parsed.map_err(|problem| self.invalid(errors, problem.to_string())).ok()
    }

    /// Must be a quantity of 0 or more, where it is set. Gives it.
    pub fn quantity_not_negative(&self, errors: &mut FieldErrors) -> Option<Quantity> {
        let quantity = self.quantity(errors)?;
        if quantity.is_negative() {
            self.invalid(errors, "must be greater than or equal to 0");
        }
        Some(quantity)
    }

    /// Must be a quantity above 0, where it is set. Gives it.
    pub fn quantity_positive(&self, errors: &mut FieldErrors) -> Option<Quantity> {
        let quantity = self.quantity(errors)?;
        if quantity.is_negative() || quantity.is_zero() {
            self.invalid(errors, "must be greater than zero");
        }
        Some(quantity)
    }

    /// Must be what it was.
    pub fn unchanged(&self, errors: &mut FieldErrors, old: &At<'_>) {
        if self.value != old.value && (self.is_set() || old.is_set()) {
            self.invalid(errors, "field is immutable");
        }
    }
}
