//! Which texts are wanted: by a regular expression, by fields of lines that are JSON. Pure.

use minik8s_meta::FieldCondition;
use regex::bytes::Regex;

/// All conditions must hold.
#[derive(Debug, Default)]
pub struct Matcher {
    grep: Option<Regex>,
    /// Whether a match in many lines at once tells in which line to look.
    is_local: bool,
    fields: Vec<FieldCondition>,
}

impl Matcher {
    pub fn new(grep: Option<&str>, fields: &[String]) -> Result<Self, String> {
        let compiled = grep.filter(|text| !text.is_empty()).map(Regex::new).transpose();
        let compiled = compiled.map_err(|error| format!("grep is no regular expression: {error}"))?;
        Ok(Matcher {
            is_local: compiled.as_ref().is_some_and(|regex| !looks_around(regex.as_str())),
            grep: compiled,
            fields: fields.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
        })
    }

    pub fn takes(&self, text: &[u8]) -> bool {
        self.grep.as_ref().is_none_or(|grep| grep.is_match(text)) && self.has_fields(text)
    }

    /// The first place at or behind `from` at which a line that is wanted could be. All lines before its line are not wanted.
    pub fn next(&self, lines: &[u8], from: usize) -> Option<usize> {
        match &self.grep {
            Some(grep) if self.is_local => Some(grep.find_at(lines, from)?.start()),
            _ => (from < lines.len()).then_some(from),
        }
    }

    fn has_fields(&self, text: &[u8]) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        if !text.starts_with(b"{") || !self.fields.iter().all(|field| field.may_fit(text)) {
            return false;
        }
        let Ok(object) = serde_json::from_slice(text) else { return false };
        self.fields.iter().all(|field| field.fits(&object))
    }
}

/// Whether an expression asks where a text begins or ends: among many lines it would be asked of all of them.
fn looks_around(expression: &str) -> bool {
    expression.contains(['^', '$'])
        || ["\\A", "\\z", "\\b", "\\B", "\\<", "\\>", "(?"].iter().any(|part| expression.contains(part))
}
