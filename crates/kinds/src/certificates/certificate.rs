//! The certificate of a pod against what was asked for: whose key it is for, and how long it is good.
//!
//! Signatures of the chain are the signer's business; that what a pod gets fits its request is ours.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use super::request_signature;
use crate::{At, FieldErrors};

/// A refresh is neither at once nor too late, in seconds.
const REFRESH_MARGIN: i64 = 600;
const MIN_LIFETIME: i64 = 3600;
const OMITTED: &str = "<value omitted>";

/// Whether this is a PKCS#10 request (base64 of DER) that is signed by the key in it.
pub(super) fn check_request(text: &str) -> Result<(), &'static str> {
    let der = STANDARD.decode(text).map_err(|_| "must be a valid PKCS#10 CSR")?;
    let (rest, request) =
        X509CertificationRequest::from_der(&der).map_err(|_| "must be a valid PKCS#10 CSR")?;
    if !rest.is_empty() {
        return Err("must be a valid PKCS#10 CSR");
    }
    match request_signature::is_valid(&request) {
        true => Ok(()),
        false => Err("invalid signature"),
    }
}

/// What a signer says that it issued.
pub(super) fn validate(object: &Value, status: &At<'_>, errors: &mut FieldErrors) {
    let chain = status.field("certificateChain");
    let mut bad_chain = |why: &str| errors.invalid(chain.path.clone(), OMITTED, why);
    let blocks: Result<Vec<Pem>, _> = Pem::iter_from_buffer(chain.text().as_bytes()).collect();
    let Ok(blocks) = blocks else { return bad_chain("issued certificate chain must be PEM") };
    let Some(leaf) = blocks.first() else {
        return bad_chain("issued certificate chain must contain at least one certificate");
    };
    if blocks.iter().any(|block| block.label != "CERTIFICATE") {
        return bad_chain("issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
    }
    if blocks.iter().any(|block| X509Certificate::from_der(&block.contents).is_err()) {
        return bad_chain("a certificate of the chain does not parse as valid X.509");
    }
    let Ok((_, leaf)) = X509Certificate::from_der(&leaf.contents) else { return };
    let stub = STANDARD.decode(object["spec"]["stubPKCS10Request"].as_str().unwrap_or_default());
    let stub = stub.unwrap_or_default();
    let is_for_key = X509CertificationRequest::from_der(&stub).is_ok_and(|(_, request)| {
        request.certification_request_info.subject_pki.raw == leaf.public_key().raw
    });
    if !is_for_key {
        return bad_chain("leaf certificate was not issued to the requested public key");
    }
    let life = leaf.validity();
    let (from, to) = (life.not_before.timestamp(), life.not_after.timestamp());
    if to - from < MIN_LIFETIME {
        bad_chain("leaf certificate lifetime must be >= 1 hour");
    }
    if to - from > object["spec"]["maxExpirationSeconds"].as_i64().unwrap_or_default() {
        bad_chain("leaf certificate lifetime must be <= spec.maxExpirationSeconds");
    }
    validate_times(status, from, to, errors);
}

fn validate_times(status: &At<'_>, from: i64, to: i64, errors: &mut FieldErrors) {
    let time = |field: &At<'_>| field.text().parse::<Timestamp>().map(Timestamp::as_second).ok();
    for (name, want) in [("notBefore", from), ("notAfter", to)] {
        let field = status.field(name);
        match time(&field) {
            Some(second) if second == want => {}
            Some(_) => field
                .invalid(errors, format!("must be set to the {name} time encoded in the leaf certificate")),
            None => field.required(errors, "must be present and consistent with the issued certificate"),
        }
    }
    let refresh = status.field("beginRefreshAt");
    match time(&refresh) {
        None => {
            refresh.required(errors, "must be present and in the range [notbefore+10min, notafter-10min]")
        }
        Some(at) if at < from + REFRESH_MARGIN => {
            refresh.invalid(errors, "must be at least 10 minutes after status.notBefore");
        }
        Some(at) if at > to - REFRESH_MARGIN => {
            refresh.invalid(errors, "must be at least 10 minutes before status.notAfter");
        }
        Some(_) => {}
    }
}
