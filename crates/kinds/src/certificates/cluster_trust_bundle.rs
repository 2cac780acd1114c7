//! ClusterTrustBundle: root certificates to trust.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use serde_json::Value;

use super::signer;
use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<ClusterTrustBundle>(Bundles).named(NameRule::PathSegment)
}

struct Bundles;

impl Strategy for Bundles {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        let (name, spec) = (root.field("metadata").field("name"), root.field("spec"));
        let signer = spec.field("signerName");
        validate_name(&name, signer.text(), errors);
        if signer.is_set() {
            signer::validate_name(&signer, errors);
        }
        if !signer::has_pem_block(spec.field("trustBundle").text(), "CERTIFICATE") {
            errors.invalid(
                spec.path.field("trustBundle"),
                "<value omitted>",
                "at least one trust anchor must be provided",
            );
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let signer = |object| At::root(object).field("spec").field("signerName");
        signer(object).unchanged(errors, &signer(old));
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.signerName", table::text_or(&object["spec"]["signerName"], ""))]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "SignerName"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        vec![table::name(object), table::text_or(&object["spec"]["signerName"], table::NONE).into()]
    }
}

/// A bundle of a signer carries the signer's name: `example.com:signer:bundle`.
fn validate_name(name: &At<'_>, signer: &str, errors: &mut FieldErrors) {
    if signer.is_empty() {
        if name.text().contains(':') {
            name.invalid(errors, "ClusterTrustBundle without signer name must not have \":\" in its name");
        }
        name.problems(errors, format::subdomain(name.text()));
        return;
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.text().strip_prefix(&prefix) {
        Some(rest) => name.problems(errors, format::subdomain(rest)),
        None => name.invalid(
            errors,
            format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    #[test]
    fn validation() {
        let bundle = |name: &str, signer: Value| {
            let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
            json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": pem}})
        };
        check::errors("clustertrustbundles", bundle("a", json!(null)), &[]);
        check::errors("clustertrustbundles", bundle("a.b:s:x", json!("a.b/s")), &[]);
        check::errors(
            "clustertrustbundles",
            bundle("x", json!("a.b/s")),
            &[
                "metadata.name: Invalid value: \"x\": ClusterTrustBundle for signerName a.b/s must be named with prefix a.b:s:",
            ],
        );
        check::errors(
            "clustertrustbundles",
            json!({"metadata": {"name": "a"}}),
            &["spec.trustBundle: Invalid value: \"<value omitted>\""],
        );
    }
}
