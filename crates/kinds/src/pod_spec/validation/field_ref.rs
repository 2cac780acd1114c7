//! References from a container to its own pod: `fieldRef` and `resourceFieldRef`.

use crate::At;
use crate::{FieldErrors, Quantity, format};

/// What a reference is for: variables may name other fields than files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Environment,
    File,
}

const IN_ENVIRONMENT: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const IN_FILES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn field(reference: &At<'_>, purpose: Use, errors: &mut FieldErrors) {
    if !reference.exists() {
        return;
    }
    reference.field("apiVersion").need(errors);
    let path = reference.field("fieldPath");
    if !path.need(errors) {
        return;
    }
    if let Some((field, key)) = subscript(path.text()) {
        match field {
            "metadata.annotations" => {
                path.problems(errors, format::qualified_name(&key.to_ascii_lowercase()))
            }
            "metadata.labels" => path.problems(errors, format::qualified_name(key)),
            _ => path.invalid(errors, format!("field label not supported: {field}")),
        }
        return;
    }
    path.one_of(errors, if purpose == Use::File { IN_FILES } else { IN_ENVIRONMENT });
}

pub(super) fn resource(reference: &At<'_>, purpose: Use, errors: &mut FieldErrors) {
    if !reference.exists() {
        return;
    }
    if purpose == Use::File {
        reference.field("containerName").need(errors);
    }
    let resource = reference.field("resource");
    if resource.need(errors) {
        let huge = ["limits.hugepages-", "requests.hugepages-"];
        if !huge.iter().any(|prefix| resource.text().starts_with(prefix)) {
            resource.one_of(errors, RESOURCES);
        }
    }
    let divisor = reference.field("divisor");
    if divisor.exists()
        && let Err(error) = Quantity::from_json(divisor.value)
    {
        divisor.invalid(errors, error.to_string());
    }
}

/// `metadata.labels['app']` as field and key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (field, rest) = path.split_once("['")?;
    Some((field, rest.strip_suffix("']")?))
}
