//! A condition on a field of a line that is JSON: `level=error`, `http.code!=200`. Pure.

use std::str::FromStr;

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldCondition {
    /// Names from the outside to the inside.
    path: Vec<String>,
    value: String,
    /// False for `!=`.
    equal: bool,
}

impl FieldCondition {
    /// What is not there is not equal to anything; what is no object has no fields.
    pub fn fits(&self, object: &Value) -> bool {
        if !object.is_object() {
            return false;
        }
        let found = self.path.iter().try_fold(object, |value, name| value.get(name));
        let equals = match found {
            Some(Value::String(text)) => *text == self.value,
            Some(Value::Null) | None => false,
            // A number or truth value is as it is written.
            Some(other) => serde_json::to_string(other).is_ok_and(|text| text == self.value),
        };
        equals == self.equal
    }

    /// What every object that fits has somewhere in its text, unless a letter of it is escaped by a backslash. `None` where
    /// nothing can be said.
    pub fn literal(&self) -> Option<&str> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.: ".contains(&byte);
        // A number may be written in several ways.
        let is_text = !self.value.is_empty() && self.value.parse::<f64>().is_err();
        let has_literal = self.equal && is_text && self.value.bytes().all(is_plain);
        has_literal.then_some(self.value.as_str())
    }
}

impl FromStr for FieldCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = text.split_once("!=").map(|(name, value)| (name, value, false));
        let split = split.or_else(|| text.split_once('=').map(|(name, value)| (name, value, true)));
        let Some((name, value, equal)) = split.filter(|(name, _, _)| !name.is_empty()) else {
            return Err(format!("{text}: give FIELD=VALUE or FIELD!=VALUE, as level=error"));
        };
        Ok(FieldCondition {
            path: name.split('.').map(str::to_owned).collect(),
            value: value.to_owned(),
            equal,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_on_fields() {
        let object =
            json!({"level": "error", "http": {"code": 503}, "ok": false, "none": null, "text": "a\"b"});
        let check = |condition: &str, want: bool| {
            let condition: FieldCondition = condition.parse().unwrap();
            assert_eq!(condition.fits(&object), want, "{condition:?}");
            let text = object.to_string();
            assert!(
                !want || condition.literal().is_none_or(|literal| text.contains(literal)),
                "{condition:?}"
            );
        };
        check("level=error", true);
        check("level=info", false);
        check("level!=info", true);
        check("http.code=503", true);
        check("ok=false", true);
        check("none=null", false);
        check("nothing=x", false);
        check("nothing!=x", true);
        check("text=a\"b", true);
        let condition: FieldCondition = "level=error".parse().unwrap();
        assert!(!condition.fits(&json!([1])) && condition.literal() == Some("error"));
        for other in ["level!=error", "level=", "text=a\"b", "code=1000"] {
            assert_eq!(other.parse::<FieldCondition>().unwrap().literal(), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in ["level", "=error", ""] {
            assert!(text.parse::<FieldCondition>().unwrap_err().contains("level=error"), "{text}");
        }
    }
}
