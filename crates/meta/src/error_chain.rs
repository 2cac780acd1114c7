//! Errors as one line: what went wrong, and what was behind it.

use std::error::Error;

/// The error with its causes, each of them once.
pub fn error_chain(error: &dyn Error) -> String {
    with_causes(error.to_string(), error.source())
}

/// A text with the causes of what it tells. Many errors repeat their cause, and some what they are the cause of.
pub fn with_causes(text: String, cause: Option<&(dyn Error + 'static)>) -> String {
    let causes = std::iter::successors(cause, |cause| (*cause).source());
    causes.map(ToString::to_string).fold(text, |text, cause| match text.contains(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Caused(&'static str, #[source] Option<Box<Caused>>);

    #[test]
    fn error_chain_tells_each_cause_once() {
        let refused = Caused("refused", None);
        let connect = Caused("cannot connect: refused", Some(Box::new(refused)));
        let last = Caused("no answer", Some(Box::new(connect)));
        assert_eq!(error_chain(&last), "no answer: cannot connect: refused");
        assert_eq!(error_chain(&Caused("alone", None)), "alone");
    }
}
