//! Environment variables and where their values come from.

use super::field_ref;
use crate::At;
use crate::{FieldErrors, format};

const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

pub(super) fn validate(env: &At<'_>, errors: &mut FieldErrors) {
    for variable in env.items() {
        variable.field("name").need_form(errors, name_problems);
        let source = variable.field("valueFrom");
        if source.exists() {
            validate_source(&source, variable.field("value").is_set(), errors);
        }
    }
}

pub(super) fn validate_from(env_from: &At<'_>, errors: &mut FieldErrors) {
    for source in env_from.items() {
        source.field("prefix").has_form(errors, name_problems);
        let references = ["configMapRef", "secretRef"];
        match references.iter().filter(|reference| source.field(reference).exists()).count() {
            0 => {
                errors.invalid(source.path.clone(), "", "must specify one of: `configMapRef` or `secretRef`")
            }
            1 => {}
            _ => errors.invalid(
                source.path.clone(),
                "",
                "may not have more than one field specified at a time",
            ),
        }
        for reference in references.map(|reference| source.field(reference)).iter().filter(|r| r.exists()) {
            reference.field("name").need_form(errors, format::subdomain);
        }
    }
}

fn validate_source(source: &At<'_>, has_value: bool, errors: &mut FieldErrors) {
    match SOURCES.iter().filter(|name| source.field(name).exists()).count() {
        0 => errors.invalid(
            source.path.clone(),
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ),
        _ if has_value => {
            errors.invalid(source.path.clone(), "", "may not be specified when `value` is not empty");
        }
        1 => {}
        _ => errors.invalid(
            source.path.clone(),
            "",
            "may not have more than one field specified at a time",
        ),
    }
    field_ref::field(&source.field("fieldRef"), field_ref::Use::Environment, errors);
    field_ref::resource(&source.field("resourceFieldRef"), field_ref::Use::Environment, errors);
    for reference in ["configMapKeyRef", "secretKeyRef"].map(|name| source.field(name)) {
        if reference.exists() {
            reference.field("name").need(errors);
            reference.field("key").need_form(errors, format::config_key);
        }
    }
    let file = source.field("fileKeyRef");
    if file.exists() {
        for field in ["key", "volumeName", "path"] {
            file.field(field).need(errors);
        }
    }
}

/// Nearly anything may name a variable; shells are stricter than the kernel.
pub(super) fn name_problems(name: &str) -> Vec<String> {
    let printable = |b: u8| (b' '..=b'~').contains(&b) && b != b'=';
    match name.bytes().all(printable) {
        true => Vec::new(),
        false => vec![
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        ],
    }
}
