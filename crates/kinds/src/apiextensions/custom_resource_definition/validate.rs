//! What a definition must look like.

use std::collections::HashSet;

use serde_json::Value;

use crate::At;
use crate::{FieldErrors, format};

/// Groups of the project itself need a review.
const PROTECTED: &[&str] = &["k8s.io", "kubernetes.io"];
const MAX_SELECTABLE_FIELDS: usize = 8;
const APPROVAL: &str = "api-approved.kubernetes.io";

pub(super) fn definition(object: &Value, errors: &mut FieldErrors) {
    let root = At::root(object);
    let (name, spec) = (root.field("metadata").field("name"), root.field("spec"));
    let group = spec.field("group");
    let wanted = format!("{}.{}", spec.field("names").field("plural").text(), group.text());
    if name.text() != wanted {
        name.invalid(errors, "must be spec.names.plural+\".\"+spec.group");
    }
    if group.need(errors) {
        let problems = format::subdomain(group.text());
        if problems.is_empty() && !group.text().contains('.') {
            group.invalid(errors, "should be a domain with at least one dot");
        }
        group.problems(errors, problems);
    }
    approval(&root, group.text(), errors);
    spec.field("scope").need_one_of(errors, &["Cluster", "Namespaced"]);
    let preserve = spec.field("preserveUnknownFields");
    if preserve.is_true() {
        preserve.invalid(
            errors,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    names(&spec.field("names"), errors);
    versions(&spec.field("versions"), errors);
    conversion(&spec.field("conversion"), errors);
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let (new, old) = (At::root(object), At::root(old));
    let (new_spec, old_spec) = (new.field("spec"), old.field("spec"));
    new_spec.field("group").unchanged(errors, &old_spec.field("group"));
    let (new_names, old_names) = (new_spec.field("names"), old_spec.field("names"));
    new_names.field("plural").unchanged(errors, &old_names.field("plural"));
    let mut conditions = old.field("status").field("conditions").items();
    if conditions
        .any(|condition| condition.value["type"] == "Established" && condition.value["status"] == "True")
    {
        new_spec.field("scope").unchanged(errors, &old_spec.field("scope"));
        new_names.field("kind").unchanged(errors, &old_names.field("kind"));
    }
    let defined: HashSet<&str> =
        new_spec.field("versions").items().map(|version| version.field("name").text()).collect();
    for version in new.field("status").field("storedVersions").items() {
        if !defined.contains(version.text()) {
            version.invalid(errors, "must appear in spec.versions");
        }
    }
}

fn approval(root: &At<'_>, group: &str, errors: &mut FieldErrors) {
    let is_protected =
        PROTECTED.iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let annotations = root.field("metadata").field("annotations");
    if is_protected && annotations.value[APPROVAL].as_str().is_none_or(str::is_empty) {
        errors.required(
            annotations.path.key(APPROVAL),
            &format!("protected groups must have approval annotation \"{APPROVAL}\", see https://github.com/kubernetes/enhancements/pull/1111"),
        );
    }
}

fn names(names: &At<'_>, errors: &mut FieldErrors) {
    for field in ["plural", "singular"].map(|name| names.field(name)) {
        field.need_form(errors, format::label_1035);
    }
    let kinds = ["kind", "listKind"].map(|name| names.field(name));
    for kind in &kinds {
        if kind.need(errors) {
            for problem in format::label_1035(&kind.text().to_lowercase()) {
                kind.invalid(errors, format!("may have mixed case, but should otherwise match: {problem}"));
            }
        }
    }
    let [kind, list] = kinds;
    if kind.is_set() && kind.text() == list.text() {
        list.invalid(errors, "kind and listKind may not be the same");
    }
    for field in ["shortNames", "categories"] {
        for name in names.field(field).items() {
            name.problems(errors, format::label_1035(name.text()));
        }
    }
}

fn versions(versions: &At<'_>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    let mut unique = true;
    let mut stored = 0;
    for version in versions.items() {
        let name = version.field("name");
        unique &= seen.insert(name.text());
        name.problems(errors, format::label_1035(name.text()));
        stored += usize::from(version.field("storage").is_true());
        let warning = version.field("deprecationWarning");
        if warning.exists() && !version.field("deprecated").is_true() {
            warning.invalid(errors, "can only be set for deprecated versions");
        }
        let schema = version.field("schema").field("openAPIV3Schema");
        if !schema.exists() {
            schema.required(errors, "schemas are required");
        }
        columns(&version.field("additionalPrinterColumns"), errors);
        scale(&version.field("subresources").field("scale"), errors);
        selectable_fields(&version.field("selectableFields"), schema.value, errors);
    }
    if !unique {
        versions.invalid(errors, "must contain unique version names");
    }
    if stored != 1 {
        versions.invalid(errors, "must have exactly one version marked as storage version");
    }
}

fn columns(columns: &At<'_>, errors: &mut FieldErrors) {
    for column in columns.items() {
        column.field("name").need(errors);
        column.field("type").need_one_of(errors, &["boolean", "date", "integer", "number", "string"]);
        let path = column.field("jsonPath");
        if path.need(errors) && !path.text().starts_with('.') {
            path.invalid(errors, "should be a JSON path that starts with a dot");
        }
    }
}

/// Plain paths to text, numbers without fractions, and yes or no, anywhere but in the metadata.
fn selectable_fields(fields: &At<'_>, schema: &Value, errors: &mut FieldErrors) {
    if fields.items().count() > MAX_SELECTABLE_FIELDS {
        errors.too_many(fields.path.clone(), fields.items().count(), MAX_SELECTABLE_FIELDS);
    }
    let mut seen = HashSet::new();
    for field in fields.items() {
        let path = field.field("jsonPath");
        if !path.need(errors) {
            continue;
        }
        let Some(steps) = path.text().strip_prefix('.').filter(|steps| !steps.contains(['[', '*'])) else {
            path.invalid(errors, "must be a simple path to a field: .spec.color");
            continue;
        };
        if !seen.insert(path.text()) {
            path.duplicate(errors);
        }
        if steps == "metadata" || steps.starts_with("metadata.") {
            path.invalid(errors, "must not point to fields in metadata");
            continue;
        }
        let target = steps.split('.').fold(schema, |schema, step| &schema["properties"][step]);
        match target["type"].as_str() {
            Some("string" | "integer" | "boolean") => {}
            None => path.invalid(errors, "must point to a field that the schema has"),
            Some(_) => path.invalid(errors, "must point to a field of type string, boolean or integer"),
        }
    }
}

fn scale(scale: &At<'_>, errors: &mut FieldErrors) {
    if !scale.exists() {
        return;
    }
    for (field, part, needed) in [
        ("specReplicasPath", ".spec.", true),
        ("statusReplicasPath", ".status.", true),
        ("labelSelectorPath", ".s", false),
    ] {
        let path = scale.field(field);
        match path.text() {
            "" if needed => path.required(errors, ""),
            "" => {}
            text if !text.starts_with(part) => {
                let place = if needed { part.trim_end_matches('.') } else { ".spec or .status" };
                path.invalid(errors, format!("should be a json path under {place}"));
            }
            _ => {}
        }
    }
}

fn conversion(conversion: &At<'_>, errors: &mut FieldErrors) {
    let (strategy, webhook) = (conversion.field("strategy"), conversion.field("webhook"));
    strategy.need_one_of(errors, &["None", "Webhook"]);
    match strategy.text() {
        "Webhook" if !webhook.exists() => {
            webhook.required(errors, "required when strategy is set to Webhook");
        }
        "Webhook" => {
            webhook.field("conversionReviewVersions").need(errors);
            let config = webhook.field("clientConfig");
            if config.field("url").exists() == config.field("service").exists() {
                config.required(errors, "exactly one of url or service is required");
            }
        }
        "None" if webhook.exists() => {
            webhook.forbidden(errors, "should not be set when strategy is not set to Webhook");
        }
        _ => {}
    }
}
