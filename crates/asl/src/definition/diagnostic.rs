//! What is wrong with a definition, in AWS' codes and words.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    Error,
    Warning,
}

/// One finding. `location` is a JSON pointer into the definition, or Jackson's position in its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    pub severity: Severity,
    pub code: String,
    pub message: String,
    pub location: String,
    /// More than AWS tells.
    #[serde(skip)]
    pub hint: Option<Box<Hint>>,
}

/// Which field of the object at a location is meant, and which would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    pub field: String,
    pub allowed: String,
}

impl Diagnostic {
    pub fn error(code: &str, location: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code: code.into(),
            message: message.into(),
            location: location.into(),
            hint: None,
        }
    }

    /// About a field that its object has not.
    pub fn unknown_field(location: &str, field: &str, message: impl Into<String>, allowed: &str) -> Self {
        let hint = Hint { field: field.to_owned(), allowed: allowed.to_owned() };
        Self { hint: Some(Box::new(hint)), ..Self::schema(location, message) }
    }

    /// Against the schema of definitions.
    pub fn schema(location: &str, message: impl Into<String>) -> Self {
        Self::error("SCHEMA_VALIDATION_FAILED", location, message)
    }
}

/// Everything that is wrong; never empty.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl std::fmt::Display for Diagnostics {
    /// As AWS refuses a definition: `Invalid State Machine Definition: 'CODE: message at location, …'`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<String> =
            self.0.iter().map(|one| format!("{}: {} at {}", one.code, one.message, one.location)).collect();
        write!(f, "Invalid State Machine Definition: '{}'", all.join(", "))
    }
}
