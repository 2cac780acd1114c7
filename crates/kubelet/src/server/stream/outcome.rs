//! How a command ended, for clients that want to hear of errors alone, and in words.

use serde_json::Value;

/// A Status is short; whatever is longer is none.
const LONGEST: usize = 64 << 10;

/// The runtime's Status, gathered until it is whole.
#[derive(Debug, Default)]
pub struct Outcome(Vec<u8>);

impl Outcome {
    pub fn push(&mut self, data: &[u8]) {
        let room = LONGEST.saturating_sub(self.0.len());
        self.0.extend_from_slice(&data[..data.len().min(room)]);
    }

    /// None: nothing went wrong.
    pub fn into_words(self) -> Option<String> {
        let status: Value = match serde_json::from_slice(&self.0) {
            Ok(status) => status,
            Err(_) if self.0.is_empty() => return None,
            Err(_) => return Some(String::from_utf8_lossy(&self.0).into_owned()),
        };
        let failed = status["status"].as_str().is_some_and(|status| status != "Success");
        failed.then(|| status["message"].as_str().unwrap_or("unknown error").to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_is_told_if_it_is_an_error() {
        let check = |status: &str, words: Option<&str>| {
            let mut outcome = Outcome::default();
            status.as_bytes().chunks(3).for_each(|piece| outcome.push(piece));
            assert_eq!(outcome.into_words().as_deref(), words, "{status}");
        };
        check("", None);
        check(r#"{"metadata":{},"status":"Success"}"#, None);
        check(
            r#"{"status":"Failure","message":"command terminated with exit code 1"}"#,
            Some("command terminated with exit code 1"),
        );
        check(r#"{"status":"Failure"}"#, Some("unknown error"));
        check("not JSON", Some("not JSON"));
        check("[1]", None);
    }
}
