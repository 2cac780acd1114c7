//! Whether a request is signed by the key in it. ring, by which x509-parser verifies, does not know P-521: such keys are
//! verified by `p521`, with SHA-512, as nodes sign. Whose key it is, is never asked here.

use p521::ecdsa::signature::Verifier;
use p521::ecdsa::{Error, Signature, VerifyingKey};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::oid_registry::{OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P521, OID_SIG_ECDSA_WITH_SHA512};
use x509_parser::x509::SubjectPublicKeyInfo;

/// What a point in full begins with. Compressed ones are not taken, as upstream has it.
const UNCOMPRESSED: u8 = 4;

pub(super) fn is_valid(request: &X509CertificationRequest<'_>) -> bool {
    let info = &request.certification_request_info;
    if !is_p521(&info.subject_pki) {
        return request.verify_signature().is_ok();
    }
    let key = &info.subject_pki.subject_public_key.data;
    request.signature_algorithm.algorithm == OID_SIG_ECDSA_WITH_SHA512
        && key.first() == Some(&UNCOMPRESSED)
        && verify_p521(key, info.raw, &request.signature_value.data).is_ok()
}

fn is_p521(key: &SubjectPublicKeyInfo<'_>) -> bool {
    let curve = key.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
    key.algorithm.algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY && curve == Some(OID_NIST_EC_P521)
}

fn verify_p521(key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), Error> {
    let key = VerifyingKey::from_sec1_bytes(key)?;
    key.verify(message, &Signature::from_der(signature)?)
}
