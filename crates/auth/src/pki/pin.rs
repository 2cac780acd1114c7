//! Knowing an authority by the hash of its public key.

use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};

/// SHA-256 of the certificate's public key (its SubjectPublicKeyInfo), in hexadecimal digits; `None` if this
/// is no certificate. It stays the same when the certificate is renewed with the same key.
pub fn public_key_pin(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let hash = Sha256::digest(certificate.tbs_certificate.subject_pki.raw);
    Some(hash.iter().map(|byte| format!("{byte:02x}")).collect())
}
