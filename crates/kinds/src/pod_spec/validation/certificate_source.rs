//! Projected volumes of certificates: those to trust, and the pod's own.

use super::volume_source::file_path;
use crate::certificates::signer;
use crate::{At, FieldErrors, format, validate_label_selector};

const KEY_TYPES: &[&str] = &["ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"];
const MIN_EXPIRATION: i64 = 3600;

pub(super) fn trust_bundle(source: &At<'_>, errors: &mut FieldErrors) {
    let (name, signer, selector) =
        (source.field("name"), source.field("signerName"), source.field("labelSelector"));
    match (name.exists(), signer.exists()) {
        (true, true) => source.invalid(errors, "only one of name and signerName may be used"),
        (true, false) => {
            if name.need(errors) {
                // A signer's bundle carries the signer's name: `example.com:signer:bundle`.
                let own = name.text().rsplit(':').next().unwrap_or_default();
                name.problems(errors, format::subdomain(own));
            }
            if selector.exists() {
                selector.invalid(errors, "labelSelector must be unset if name is specified");
            }
        }
        (false, true) => {
            signer::validate_name(&signer, errors);
            validate_label_selector(selector.value, &selector.path, errors);
        }
        (false, false) => source.required(errors, "either name or signerName must be specified"),
    }
}

pub(super) fn pod_certificate(source: &At<'_>, errors: &mut FieldErrors) {
    let signer = source.field("signerName");
    signer::validate_name(&signer, errors);
    source.field("keyType").need_one_of(errors, KEY_TYPES);
    let expiration = source.field("maxExpirationSeconds");
    let most = signer::max_expiration(signer.text());
    match expiration.int() {
        Some(seconds) if seconds < MIN_EXPIRATION => {
            expiration
                .invalid(errors, format!("if provided, maxExpirationSeconds must be >= {MIN_EXPIRATION}"));
        }
        Some(seconds) if seconds > most => {
            expiration.invalid(errors, format!("if provided, maxExpirationSeconds must be <= {most}"));
        }
        _ => {}
    }
    signer::validate_annotations(&source.field("userAnnotations"), errors);
    let paths = ["credentialBundlePath", "keyPath", "certificateChainPath"].map(|name| source.field(name));
    let mut given = paths.iter().filter(|path| path.is_set()).peekable();
    if given.peek().is_none() {
        source.required(
            errors,
            "specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
        );
    }
    given.for_each(|path| file_path(path, errors));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn pod(source: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "projected": {"sources": [source]}}]}})
    }

    #[test]
    fn pod_certificate_sources() {
        let at = |field: &str, message: &str| {
            format!("spec.volumes[0].projected.sources[0].podCertificate{field}: {message}")
        };
        let source = |field: &str, value: Value| {
            let mut source =
                json!({"signerName": "a.b/s", "keyType": "ED25519", "credentialBundlePath": "c.pem"});
            source[field] = value;
            check::defaulted("pods", pod(json!({"podCertificate": source})))
        };
        let bad =
            |field: &str, value: Value, want: String| check::errors("pods", source(field, value), &[&want]);
        check::errors("pods", source("maxExpirationSeconds", json!(3600)), &[]);
        check::errors("pods", source("userAnnotations", json!({"a.b/c": "d"})), &[]);
        let seconds = ".maxExpirationSeconds";
        let most = 91 * 86_400;
        bad(
            "maxExpirationSeconds",
            json!(3599),
            at(seconds, "Invalid value: 3599: if provided, maxExpirationSeconds must be >= 3600"),
        );
        bad(
            "maxExpirationSeconds",
            json!(most + 1),
            at(seconds, "Invalid value: 7862401: if provided, maxExpirationSeconds must be <= 7862400"),
        );
        bad("keyType", json!("DSA"), at(".keyType", "Unsupported value: \"DSA\""));
        bad("credentialBundlePath", json!("../x"), at(".credentialBundlePath", "Invalid value: \"../x\""));
        bad("credentialBundlePath", json!(""), at("", "Required value: specify at least one of"));
        bad("userAnnotations", json!({"plain": ""}), at(".userAnnotations", "Invalid value: \"plain\""));
        bad(
            "keyPath",
            json!("c.pem"),
            at(".keyPath", "Invalid value: \"c.pem\": conflicting duplicate paths"),
        );
    }

    #[test]
    fn trust_bundle_sources() {
        let bad = |source: Value, want: &str| {
            let want = format!("spec.volumes[0].projected.sources[0].clusterTrustBundle{want}");
            let object = check::defaulted("pods", pod(json!({"clusterTrustBundle": source})));
            check::errors(
                "pods",
                object,
                if want.ends_with("none") { vec![] } else { vec![want.as_str()] }.as_slice(),
            );
        };
        bad(json!({"name": "a.b:s:x", "path": "ca"}), "none");
        bad(json!({"signerName": "a.b/s", "labelSelector": {}, "path": "ca"}), "none");
        bad(json!({"path": "ca"}), ": Required value: either name or signerName must be specified");
        bad(json!({"name": "n", "labelSelector": {}, "path": "ca"}), ".labelSelector: Invalid value");
        bad(json!({"name": "n"}), ".path: Required value");
    }
}
