//! Names of signers and the PEM that they sign.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use crate::At;
use crate::{FieldErrors, format};

const MAX_SIGNER_NAME: usize = 571;

/// `example.com/signer`.
pub(crate) fn validate_name(signer: &At<'_>, errors: &mut FieldErrors) {
    if !signer.need(errors) {
        return;
    }
    if signer.text().len() > MAX_SIGNER_NAME {
        errors.too_long(signer.path.clone(), MAX_SIGNER_NAME);
    }
    match signer.text().split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty()) {
        None => signer.invalid(
            errors,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
        Some((domain, path)) => {
            signer.problems(errors, format::fully_qualified(domain));
            signer.problems(errors, format::subdomain(path));
        }
    }
}

/// How long a pod's certificate may live at most, in seconds: a day where the project itself signs, else 91.
pub(crate) fn max_expiration(signer: &str) -> i64 {
    let domain = signer.split('/').next().unwrap_or_default();
    let is_own = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    if is_own { 86_400 } else { 91 * 86_400 }
}

/// What a pod tells a signer: keys with a domain.
pub(crate) fn validate_annotations(annotations: &At<'_>, errors: &mut FieldErrors) {
    for key in annotations.value.as_object().into_iter().flatten().map(|(key, _)| key.to_lowercase()) {
        let problems = match key.split_once('/') {
            Some((domain, _)) if !domain.is_empty() => format::qualified_name(&key),
            _ => vec!["must be a domain-prefixed key (such as \"acme.io/foo\")".into()],
        };
        for problem in problems {
            errors.invalid(annotations.path.clone(), key.clone(), problem);
        }
    }
}

/// Whether a text has a PEM block of a type, with base64 inside.
pub(super) fn has_pem_block(text: &str, ty: &str) -> bool {
    let (begin, end) = (format!("-----BEGIN {ty}-----"), format!("-----END {ty}-----"));
    let Some((_, rest)) = text.split_once(&begin) else { return false };
    let Some((body, _)) = rest.split_once(&end) else { return false };
    let body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    !body.is_empty() && STANDARD.decode(body).is_ok()
}

/// Whether these bytes are a PKCS#10 request in PEM; else what is wrong with them.
pub(super) fn check_signing_request(pem: &[u8]) -> Result<(), String> {
    let block = match Pem::read(Cursor::new(pem)) {
        Ok((block, _)) if block.label == "CERTIFICATE REQUEST" => block,
        _ => return Err("PEM block type must be CERTIFICATE REQUEST".to_owned()),
    };
    match X509CertificationRequest::from_der(&block.contents) {
        Ok(_) => Ok(()),
        Err(problem) => Err(format!("the PEM block is not a certificate request: {problem}")),
    }
}
