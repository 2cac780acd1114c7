//! What ConfigMaps and Secrets have in common: keys that are file names, a size limit, and the promise
//! never to change.

use serde_json::Value;

use crate::At;
use crate::{FieldErrors, format};

pub(super) const MAX_SIZE: usize = 1024 * 1024;

pub(super) fn validate_keys(data: &At<'_>, errors: &mut FieldErrors) {
    for (key, value) in data.entries() {
        for problem in format::config_key(key) {
            errors.invalid(value.path.clone(), key, problem);
        }
    }
}

/// How many bytes a base64 text stands for.
pub(super) fn decoded_len(base64: &str) -> usize {
    let padding = base64.bytes().rev().take_while(|&b| b == b'=').count().min(2);
    (base64.len() / 4 * 3).saturating_sub(padding)
}

/// Neither the promise nor what it protects may change once `immutable` is true.
pub(super) fn validate_frozen(object: &Value, old: &Value, fields: &[&str], errors: &mut FieldErrors) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if old["immutable"] != true {
        return;
    }
    let (new, old) = (At::root(object), At::root(old));
    if !new.field("immutable").is_true() {
        new.field("immutable").forbidden(errors, WHY);
    }
    for field in fields {
        let (new, old) = (new.field(field), old.field(field));
        if new.value != old.value && (new.is_set() || old.is_set()) {
            new.forbidden(errors, WHY);
        }
    }
}
