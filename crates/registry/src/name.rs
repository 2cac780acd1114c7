//! What repositories and tags are called. Pure.

use crate::error::{ErrorCode, RegistryError, Result};

/// As clients call it: `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryName {
    pub namespace: String,
    pub name: String,
}

impl RepositoryName {
    pub fn parse(parts: &[&str]) -> Result<Self> {
        let invalid = || {
            let given: String = parts.join("/").chars().take(100).collect();
            let told = format!(
                "{given:?}: repositories are called NAMESPACE/NAME, of lower case letters and digits with ., _ or - between them"
            );
            RegistryError::new(ErrorCode::NameInvalid, told)
        };
        match parts {
            [namespace, name] if is_namespace(namespace) && is_component(name) => {
                Ok(RepositoryName { namespace: (*namespace).to_owned(), name: (*name).to_owned() })
            }
            _ => Err(invalid()),
        }
    }
}

/// What a manifest is asked for by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    Tag(String),
    Digest(crate::digest::Digest),
}

impl Reference {
    pub fn parse(text: &str) -> Result<Self> {
        if text.contains(':') {
            return text.parse().map(Reference::Digest);
        }
        if is_tag(text) {
            return Ok(Reference::Tag(text.to_owned()));
        }
        let shown: String = text.chars().take(100).collect();
        let told = format!(
            "{shown:?}: tags have up to 128 letters, digits, ., _ and -, and begin with neither . nor -"
        );
        Err(RegistryError::new(ErrorCode::ManifestInvalid, told))
    }
}

pub fn is_tag(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128 && text.starts_with(is_word) && text.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

fn is_namespace(text: &str) -> bool {
    text.len() <= 63 && !text.contains(['.', '_']) && is_component(text)
}

/// Words with a single `.`, one or two `_`, or any number of `-` between them.
pub fn is_component(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators = text.split(is_word).filter(|separator| !separator.is_empty());
    let mut separators = separators.map(|s| matches!(s, "." | "_" | "__") || s.chars().all(|c| c == '-'));
    text.len() <= 128 && text.starts_with(is_word) && text.ends_with(is_word) && separators.all(|fits| fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repository_is_a_namespace_and_a_name() {
        let check = |text: &str, fits: bool| {
            let parts: Vec<&str> = text.split('/').collect();
            assert_eq!(RepositoryName::parse(&parts).is_ok(), fits, "{text}");
        };
        for good in ["a/b", "team-1/web.app", "a/b__c", "a/b--c", "0/0"] {
            check(good, true);
        }
        for bad in [
            "a", "a/b/c", "/b", "a/", "A/b", "a/B", "a.b/c", "a/..", "a/.b", "a/b.", "a/b..c", "a/b___c",
            "a/b._c", "_/b",
        ] {
            check(bad, false);
        }
    }

    #[test]
    fn reference_is_a_tag_or_a_digest() {
        let check = |text: &str, fits: bool| assert_eq!(Reference::parse(text).is_ok(), fits, "{text}");
        for good in ["latest", "1.2_3-A", "_x"] {
            check(good, true);
        }
        for bad in ["", ".x", "-x", "..", "a b", "a/b", "sha256:12", "sha512:00"] {
            check(bad, false);
        }
        check(&format!("sha256:{}", "0a".repeat(32)), true);
        check(&format!("sha256:{}", "0A".repeat(32)), false);
        check(&"x".repeat(129), false);
    }
}
