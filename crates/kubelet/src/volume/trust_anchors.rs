//! The file of a projected `clusterTrustBundle` source. Pure.
//!
//! Certificates of all bundles that are selected, each once, in an order that changes only with them. Nothing else that a
//! bundle may hold (comments, headers) gets into the file.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1 as core;
use minik8s_runtime::Selector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use thiserror::Error;

use crate::objects::{TrustBundle, TrustBundles};

const LINE: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TrustAnchorError {
    #[error("while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io {0:?} not found")]
    NotFound(String),
    #[error("combination of signerName and labelSelector matched zero ClusterTrustBundles")]
    NoMatch,
    #[error("ClusterTrustBundle projection requires either name or signerName to be set")]
    NotNamed,
    #[error("while normalizing trust anchors: ClusterTrustBundle {0:?} is not PEM")]
    NotPem(String),
}

pub fn trust_anchors(
    source: &core::ClusterTrustBundleProjection,
    bundles: &TrustBundles,
) -> Result<String, TrustAnchorError> {
    let optional = source.optional == Some(true);
    let selected: Vec<(&String, &TrustBundle)> = match (&source.name, &source.signer_name) {
        (Some(name), _) => match bundles.get_key_value(name) {
            Some(found) => vec![found],
            None if optional => Vec::new(),
            None => return Err(TrustAnchorError::NotFound(name.clone())),
        },
        (None, Some(signer)) => {
            // None at all selects nothing; an empty one selects everything.
            let selector = Selector::new(source.label_selector.as_ref());
            let of_signer = bundles.iter().filter(|(_, bundle)| bundle.signer.as_ref() == Some(signer));
            let found: Vec<_> =
                of_signer.filter(|(_, bundle)| selector.matches(Some(&bundle.labels))).collect();
            if found.is_empty() && !optional {
                return Err(TrustAnchorError::NoMatch);
            }
            found
        }
        (None, None) => return Err(TrustAnchorError::NotNamed),
    };
    let mut anchors = BTreeSet::new();
    for (name, bundle) in selected {
        for certificate in CertificateDer::pem_slice_iter(bundle.pem.as_bytes()) {
            let certificate = certificate.map_err(|_| TrustAnchorError::NotPem(name.clone()))?;
            anchors.insert(certificate.as_ref().to_vec());
        }
    }
    Ok(anchors.iter().map(|der| pem(der)).collect())
}

pub(super) fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: String =
        text.as_bytes().chunks(LINE).map(|line| String::from_utf8_lossy(line).into_owned() + "\n").collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundles() -> TrustBundles {
        let bundle = |signer: Option<&str>, env: &str, certificates: &[&[u8]]| TrustBundle {
            signer: signer.map(str::to_owned),
            labels: [("env".to_owned(), env.to_owned())].into(),
            pem: certificates.iter().map(|der| format!("a comment\n{}", pem(der))).collect(),
        };
        [
            ("plain".to_owned(), bundle(None, "", &[b"one"])),
            ("a.b:s:prod".to_owned(), bundle(Some("a.b/s"), "prod", &[b"two", b"one"])),
            ("a.b:s:test".to_owned(), bundle(Some("a.b/s"), "test", &[b"two", b"three"])),
            ("a.b:other:x".to_owned(), bundle(Some("a.b/other"), "prod", &[b"four"])),
        ]
        .into()
    }

    fn check(source: Value, want: Result<&[&[u8]], TrustAnchorError>) {
        let mut whole = source.clone();
        whole["path"] = "ca.pem".into();
        let parsed = serde_json::from_value(whole).unwrap();
        let want = want.map(|list| list.iter().map(|der| pem(der)).collect::<String>());
        assert_eq!(trust_anchors(&parsed, &bundles()), want, "{source}");
    }

    #[test]
    fn trust_anchors_by_name() {
        check(json!({"name": "plain"}), Ok(&[b"one"]));
        check(json!({"name": "no"}), Err(TrustAnchorError::NotFound("no".into())));
        check(json!({"name": "no", "optional": true}), Ok(&[]));
        check(json!({}), Err(TrustAnchorError::NotNamed));
    }

    #[test]
    fn trust_anchors_by_signer_are_united_and_each_there_once() {
        let labels = |value: &str| json!({"matchLabels": {"env": value}});
        let signer = |selector: Value| json!({"signerName": "a.b/s", "labelSelector": selector});
        check(signer(json!({})), Ok(&[b"one", b"three", b"two"]));
        check(signer(labels("prod")), Ok(&[b"one", b"two"]));
        check(signer(labels("none")), Err(TrustAnchorError::NoMatch));
        check(signer(Value::Null), Err(TrustAnchorError::NoMatch));
        check(json!({"signerName": "a.b/s", "optional": true}), Ok(&[]));
    }

    #[test]
    fn trust_bundle_that_is_not_pem_is_an_error() {
        let bad = TrustBundle {
            pem: "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----".into(),
            ..Default::default()
        };
        let source = serde_json::from_value(json!({"name": "bad", "path": "p"})).unwrap();
        let got = trust_anchors(&source, &[("bad".to_owned(), bad)].into());
        assert_eq!(got, Err(TrustAnchorError::NotPem("bad".into())));
    }
}
