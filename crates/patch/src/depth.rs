//! A bound on nesting, so that no walk over a value recurses further than the stack allows.

use serde_json::Value;

use crate::PatchError;

/// As deep as `serde_json` parses.
pub(crate) const MAX: usize = 128;

/// Refuses values nested deeper than [`MAX`].
pub(crate) fn check(value: &Value) -> Result<(), PatchError> {
    if within(value, MAX) { Ok(()) } else { Err(PatchError::TooDeep) }
}

fn within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| within(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| within(field, levels - 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn depth_is_bounded() {
        let mut value = json!(1);
        for _ in 0..MAX {
            value = json!([value]);
        }
        assert_eq!(check(&value), Ok(()));
        assert_eq!(check(&json!({"a": value})), Err(PatchError::TooDeep));
    }
}
