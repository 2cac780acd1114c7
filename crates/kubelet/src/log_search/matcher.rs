//! Which texts are wanted: by a regular expression, by fields of lines that are JSON. Pure.

use minik8s_meta::FieldCondition;
use regex::bytes::Regex;

/// All conditions must hold.
#[derive(Debug, Default)]
pub struct Matcher {
    grep: Option<Regex>,
    fields: Vec<FieldCondition>,
    /// Is found in every line that is wanted, looked for in many lines at once. Most lines are passed over by it.
    prefilter: Option<Regex>,
}

impl Matcher {
    pub fn new(grep: Option<&str>, fields: &[String]) -> Result<Self, String> {
        let compiled = grep.filter(|text| !text.is_empty()).map(Regex::new).transpose();
        let grep = compiled.map_err(|error| format!("grep is no regular expression: {error}"))?;
        let fields: Vec<FieldCondition> = fields.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        let local = grep.clone().filter(|regex| !looks_around(regex.as_str()));
        let prefilter = local.or_else(|| {
            // An escape may stand for any letter.
            let literal = fields.iter().find_map(FieldCondition::literal)?;
            Regex::new(&format!(r"{}|\\", regex::escape(literal))).ok()
        });
        Ok(Matcher { grep, fields, prefilter })
    }

    pub fn takes(&self, text: &[u8]) -> bool {
        self.grep.as_ref().is_none_or(|grep| grep.is_match(text)) && self.has_fields(text)
    }

    /// The first place at or behind `from` at which a line that is wanted could be. Lines before the line of that place are
    /// not wanted.
    pub fn next(&self, lines: &[u8], from: usize) -> Option<usize> {
        match &self.prefilter {
            Some(prefilter) => Some(prefilter.find_at(lines, from)?.start()),
            None => (from < lines.len()).then_some(from),
        }
    }

    fn has_fields(&self, text: &[u8]) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        if !text.trim_ascii_start().starts_with(b"{") {
            return false;
        }
        let Ok(object) = serde_json::from_slice(text) else { return false };
        self.fields.iter().all(|field| field.fits(&object))
    }
}

/// Whether an expression asks what is around a place, or may do so: of many lines at once the answer is another one.
fn looks_around(expression: &str) -> bool {
    let parts = ["\\A", "\\z", "\\b", "\\B", "\\<", "\\>", "(?"];
    expression.contains(['^', '$']) || parts.iter().any(|part| expression.contains(part))
}
