//! What the API answers when it cannot do what was asked: a Kubernetes `Status`.
//!
//! Every error knows its HTTP code and reason where it is made, so that no layer above has to guess.

use std::fmt;

use minik8s_api::{FieldErrors, Resource};
use serde_json::{Value, json};

pub type Result<T, E = ApiError> = std::result::Result<T, E>;

/// An error that becomes a `Status` object.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub code: u16,
    /// Empty: unknown, which clients know as well.
    pub reason: &'static str,
    pub message: String,
    /// `details` of the Status: what it is about and the causes.
    pub details: Option<Box<Value>>,
    /// Seconds for the `Retry-After` header.
    pub retry_after: Option<u32>,
    /// With which a list can be read on all the same.
    pub continue_token: Option<Box<str>>,
}

impl ApiError {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        ApiError {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
            continue_token: None,
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn forbidden(resource: Option<&Resource>, name: &str, message: impl fmt::Display) -> Self {
        let Some(resource) = resource else {
            return Self::new(403, "Forbidden", format!("forbidden: {message}")).about("", "", name);
        };
        let which = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        let text = format!("{}{which} is forbidden: {message}", resource.qualified());
        Self::new(403, "Forbidden", text).about(&resource.group, &resource.plural, name)
    }

    /// No object of that name.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", resource.qualified())).about(
            &resource.group,
            &resource.plural,
            name,
        )
    }

    /// No such path or resource.
    pub fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub fn method_not_allowed(method: &http::Method) -> Self {
        let text = format!("the server does not allow {method} on the requested resource");
        Self::new(405, "MethodNotAllowed", text)
    }

    pub fn not_acceptable(wanted: &str) -> Self {
        let text = format!("only application/json and application/yaml can be answered, not {wanted:?}");
        Self::new(406, "NotAcceptable", text)
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", resource.qualified())).about(
            &resource.group,
            &resource.plural,
            name,
        )
    }

    pub fn conflict(resource: &Resource, name: &str, why: impl fmt::Display) -> Self {
        let text = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::new(409, "Conflict", text).about(&resource.group, &resource.plural, name)
    }

    /// The object changed since the client read it.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The rest of a list at a version that is gone: it can only be read as it is now.
    pub fn expired_page(token: String) -> Self {
        let text = "The provided continue parameter is too old to display a consistent list result. Start a new list \
            without it, or use the token in this answer's metadata to read the rest as it is now: what changed since \
            the first page may then be missing or be there twice.";
        ApiError { continue_token: Some(token.into()), ..Self::expired(text) }
    }

    pub fn too_large(limit: usize) -> Self {
        let text = format!("the request body is larger than the limit of {limit} bytes");
        Self::new(413, "RequestEntityTooLarge", text)
    }

    pub fn unsupported_media(got: &str, supported: &[&str]) -> Self {
        let text =
            format!("the body of the request was in an unknown format {got:?}; use {}", supported.join(", "));
        Self::new(415, "UnsupportedMediaType", text)
    }

    /// Field errors of one object, each as a cause.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: FieldErrors) -> Self {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| json!({"reason": e.kind.reason(), "message": e.message, "field": e.path.as_str()}))
            .collect();
        let mut error = Self::new(422, "Invalid", format!("{qualified} \"{name}\" is invalid: {list}"))
            .about(group, kind, name);
        if let Some(details) = &mut error.details {
            details["causes"] = Value::Array(causes);
        }
        error
    }

    pub fn too_many_requests(retry_after: u32, message: impl Into<String>) -> Self {
        ApiError { retry_after: Some(retry_after), ..Self::new(429, "TooManyRequests", message) }
    }

    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        ApiError { retry_after: Some(1), ..Self::new(503, "ServiceUnavailable", message) }
    }

    pub fn timeout(message: impl Into<String>) -> Self {
        ApiError { retry_after: Some(1), ..Self::new(504, "Timeout", message) }
    }

    /// Says which object it is about.
    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let mut details = serde_json::Map::new();
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(key.to_owned(), value.into());
            }
        }
        self.details = Some(Box::new(Value::Object(details)));
        self
    }

    /// Adds one cause to the details.
    pub fn caused_by(mut self, reason: &str, message: &str, field: &str) -> Self {
        let details = self.details.get_or_insert_with(|| Box::new(json!({})));
        let cause = match field {
            "" => json!({"reason": reason, "message": message}),
            _ => json!({"reason": reason, "message": message, "field": field}),
        };
        match details["causes"].as_array_mut() {
            Some(causes) => causes.push(cause),
            None => details["causes"] = json!([cause]),
        }
        self
    }

    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = (**details).clone();
        }
        if let Some(seconds) = self.retry_after {
            status["details"]["retryAfterSeconds"] = seconds.into();
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = (**token).into();
        }
        status["code"] = self.code.into();
        status
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl From<minik8s_store::Error> for ApiError {
    fn from(error: minik8s_store::Error) -> Self {
        use minik8s_store::Error as E;
        match error {
            E::Compacted { requested, oldest } => {
                Self::expired(format!("too old resource version: {requested} ({oldest})"))
            }
            E::FutureRevision { requested, newest } => {
                Self::timeout(format!("Too large resource version: {requested}, current: {newest}"))
                    .caused_by("ResourceVersionTooLarge", "Too large resource version", "")
            }
            E::SlowWatcher => {
                Self::expired("the watch could not keep up with the changes; list and watch again")
            }
            E::Closed => Self::unavailable("the store is shutting down"),
            E::Engine(why) | E::Encryption(why) | E::Open(why) | E::NotEmpty(why) | E::InUse(why) => {
                Self::internal(why)
            }
        }
    }
}
