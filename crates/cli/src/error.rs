//! What goes wrong, in kubectl's words: people and scripts know them. An error is told once, by
//! [`Error::tell`], and gives the process its exit code.

use serde_json::Value;

use crate::output;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", .0.text())]
    Server(Box<ServerError>),
    #[error("error: {0}")]
    Plain(String),
    /// Words that stand alone, without `error:` before them.
    #[error("{0}")]
    Bare(String),
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Many(Vec<Error>),
    /// Everything has been said; the process ends with this code.
    #[error("exit code {0}")]
    Exit(u8),
}

impl Error {
    pub fn plain(text: impl Into<String>) -> Error {
        Error::Plain(text.into())
    }

    /// None of them is no error, one is itself.
    pub fn from_all(mut errors: Vec<Error>) -> Result<()> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Error::Many(errors)),
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Server(error) if error.code == 404)
    }

    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Server(error) if error.code == 409 && error.reason == "Conflict")
    }

    /// Adds what was being done with which file, as kubectl does.
    pub fn when(mut self, doing: &str, source: &str) -> Error {
        if let Error::Server(error) = &mut self {
            error.message = format!("error when {doing} {source:?}: {}", error.message);
        }
        self
    }

    pub fn code(&self) -> u8 {
        match self {
            Error::Exit(code) => *code,
            _ => 1,
        }
    }

    /// Writes it to standard error.
    pub fn tell(&self) {
        if !matches!(self, Error::Exit(_)) {
            output::remark(self);
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Plain(error.to_string())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Error::Plain(error.to_string())
    }
}

/// A `Status` with which the server refused something.
#[derive(Debug, Clone, Default)]
pub struct ServerError {
    pub code: u16,
    pub reason: String,
    pub message: String,
    pub kind: String,
    pub name: String,
    /// Field and message of each cause.
    pub causes: Vec<(String, String)>,
}

impl ServerError {
    /// From the body of an answer, which is mostly, but not always, a `Status`.
    pub fn new(code: u16, body: &[u8]) -> ServerError {
        let status: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if status["kind"] != "Status" {
            let told = String::from_utf8_lossy(body).trim().to_owned();
            let (reason, message) = match code {
                401 => ("Unauthorized", "Unauthorized".to_owned()),
                404 => ("NotFound", "the server could not find the requested resource".to_owned()),
                _ if told.is_empty() => ("InternalError", format!("the server answered {code}")),
                _ => ("InternalError", told),
            };
            return ServerError { code, reason: reason.to_owned(), message, ..ServerError::default() };
        }
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        ServerError {
            code,
            reason: text(&status["reason"]),
            message: text(&status["message"]),
            kind: text(&status["details"]["kind"]),
            name: text(&status["details"]["name"]),
            causes: causes.iter().map(|cause| (text(&cause["field"]), text(&cause["message"]))).collect(),
        }
    }

    /// As kubectl tells it.
    pub fn text(&self) -> String {
        match self.reason.as_str() {
            "Invalid" => self.invalid(),
            "Unauthorized" => "error: You must be logged in to the server (Unauthorized)".to_owned(),
            "" => format!("Error from server: {}", self.message),
            reason => format!("Error from server ({reason}): {}", self.message),
        }
    }

    fn invalid(&self) -> String {
        let what = if self.kind.is_empty() {
            "The request is invalid".to_owned()
        } else {
            format!("The {} {:?} is invalid", self.kind, self.name)
        };
        let mut causes: Vec<String> = Vec::new();
        for (field, message) in &self.causes {
            let cause = format!("{field}: {message}");
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        match causes.as_slice() {
            [] if self.message.is_empty() => what,
            [] => format!("{what}: {}", self.message),
            [one] => format!("{what}: {one}"),
            many => format!("{what}: {}", many.iter().map(|c| format!("\n* {c}")).collect::<String>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(code: u16, status: Value, expected: &str) {
        assert_eq!(ServerError::new(code, status.to_string().as_bytes()).text(), expected);
    }

    #[test]
    fn words_of_the_server() {
        let status = |reason: &str, details: Value| json!({"kind": "Status", "reason": reason, "message": "m", "details": details});
        check(404, status("NotFound", json!({})), "Error from server (NotFound): m");
        check(500, status("", json!({})), "Error from server: m");
        check(
            401,
            status("Unauthorized", json!({})),
            "error: You must be logged in to the server (Unauthorized)",
        );
        let cause = |field: &str| json!({"field": field, "message": "bad"});
        let invalid =
            |causes: Value| status("Invalid", json!({"kind": "Pod", "name": "a", "causes": causes}));
        check(422, invalid(json!([cause("x"), cause("x")])), r#"The Pod "a" is invalid: x: bad"#);
        check(
            422,
            invalid(json!([cause("x"), cause("y")])),
            "The Pod \"a\" is invalid: \n* x: bad\n* y: bad",
        );
        check(422, status("Invalid", json!({})), "The request is invalid: m");
        check(
            404,
            json!("plain"),
            "Error from server (NotFound): the server could not find the requested resource",
        );
    }
}
