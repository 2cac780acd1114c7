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
            Some(other) => other.to_string() == self.value,
        };
        equals == self.equal
    }

    /// Whether a text may hold such an object, found out without reading it as one.
    pub fn may_fit(&self, text: &[u8]) -> bool {
        let is_plain =
            self.value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/ ".contains(&byte));
        if !self.equal || !is_plain || self.value.is_empty() {
            return true;
        }
        // An escape may stand for any letter.
        let holds = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
        holds(self.value.as_bytes()) || holds(b"\\")
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
            assert!(!want || condition.may_fit(object.to_string().as_bytes()), "{condition:?}");
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
        assert!(!condition.fits(&json!([1])) && !condition.may_fit(b"{\"level\":\"info\"}"));
        assert!(condition.may_fit(br#"{"level":"\u0065rror"}"#), "an escaped letter is one");
    }

    #[test]
    fn what_is_no_condition_is_refused() {
        for text in ["level", "=error", ""] {
            assert!(text.parse::<FieldCondition>().unwrap_err().contains("level=error"), "{text}");
        }
    }
}
