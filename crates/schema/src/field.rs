//! Errors that point at a field, in the words Kubernetes users know.

use std::fmt;

use serde_json::Value;

/// The way to a field: `spec.containers[0].ports[1].protocol`, `metadata.labels[a/b]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    pub fn root() -> Self {
        Path::default()
    }

    pub fn new(first: &str) -> Self {
        Path(first.to_owned())
    }

    pub fn field(&self, name: &str) -> Self {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path([&self.0, ".", name].concat()) }
    }

    pub fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    pub fn key(&self, key: &str) -> Self {
        Path([&self.0, "[", key, "]"].concat())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "<root>" } else { &self.0 })
    }
}

/// Why a field was refused. The names are the `reason`s of a Status cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    TypeInvalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
}

impl FieldErrorKind {
    /// The `reason` of the Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
        }
    }
}

/// One refused field. `Display` is upstream's form: `spec.replicas: Invalid value: -1: must be ...`.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    pub path: Path,
    /// The part after the path.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Collects every problem of an object, so that a user sees all of them at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    pub fn required(&mut self, path: Path, detail: &str) {
        self.push(FieldErrorKind::Required, path, with_detail("Required value", detail));
    }

    pub fn invalid(&mut self, path: Path, value: impl Into<Value>, detail: impl AsRef<str>) {
        let message = with_detail(&format!("Invalid value: {}", shown(&value.into())), detail.as_ref());
        self.push(FieldErrorKind::Invalid, path, message);
    }

    pub fn type_invalid(&mut self, path: Path, value: impl Into<Value>, detail: impl AsRef<str>) {
        let message = with_detail(&format!("Invalid value: {}", shown(&value.into())), detail.as_ref());
        self.push(FieldErrorKind::TypeInvalid, path, message);
    }

    pub fn not_supported(&mut self, path: Path, value: impl Into<Value>, supported: &[&str]) {
        let list: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
        let message =
            format!("Unsupported value: {}: supported values: {}", shown(&value.into()), list.join(", "));
        self.push(FieldErrorKind::NotSupported, path, message);
    }

    pub fn duplicate(&mut self, path: Path, value: impl Into<Value>) {
        let message = format!("Duplicate value: {}", shown(&value.into()));
        self.push(FieldErrorKind::Duplicate, path, message);
    }

    pub fn forbidden(&mut self, path: Path, detail: impl AsRef<str>) {
        self.push(FieldErrorKind::Forbidden, path, with_detail("Forbidden", detail.as_ref()));
    }

    pub fn too_long(&mut self, path: Path, max: usize) {
        self.push(FieldErrorKind::TooLong, path, format!("Too long: may not be more than {max} bytes"));
    }

    pub fn too_many(&mut self, path: Path, count: usize, max: usize) {
        self.push(FieldErrorKind::TooMany, path, format!("Too many: {count}: must have at most {max} items"));
    }

    pub fn not_found(&mut self, path: Path, value: impl Into<Value>) {
        let message = format!("Not found: {}", shown(&value.into()));
        self.push(FieldErrorKind::NotFound, path, message);
    }

    /// The field may not change: compares and reports in upstream's words.
    pub fn immutable(&mut self, path: Path, new: Option<&Value>, old: Option<&Value>) {
        if new != old {
            self.invalid(path, new.cloned().unwrap_or(Value::Null), "field is immutable");
        }
    }

    pub fn push(&mut self, kind: FieldErrorKind, path: Path, message: String) {
        self.0.push(FieldError { kind, path, message });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.0.iter()
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

fn with_detail(what: &str, detail: &str) -> String {
    if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") }
}

/// A value as an error shows it, cut so that a giant input cannot make a giant answer.
fn shown(value: &Value) -> String {
    const MAX: usize = 200;
    let mut text = value.to_string();
    if text.len() > MAX {
        let end = (0..=MAX).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}
