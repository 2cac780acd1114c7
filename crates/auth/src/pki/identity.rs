//! A certificate with its private key, in one file: a crash can never leave a pair that does not match.

use jiff::Timestamp;
use rcgen::KeyPair;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::authority::Profile;
use super::{AltNames, Subject, pem};

#[derive(Clone)]
pub struct Identity {
    certificate: Vec<u8>,
    /// PKCS#8.
    key: Vec<u8>,
}

impl Identity {
    pub(super) fn new(certificate: Vec<u8>, key: &KeyPair) -> Self {
        Identity { certificate, key: key.serialize_der() }
    }

    /// Reads the file's text. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let certificate = CertificateDer::from_pem_slice(text.as_bytes())
            .map_err(|_| "it holds no readable certificate".to_owned())?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| "it holds no readable private key".to_owned())?;
        let identity = Identity { certificate: certificate.to_vec(), key: key.secret_pkcs8_der().to_vec() };
        let pair = identity.key_pair()?;
        let (_, parsed) = X509Certificate::from_der(&identity.certificate)
            .map_err(|_| "its certificate is not valid X.509".to_owned())?;
        if parsed.public_key().subject_public_key.data.as_ref() != pair.public_key_raw() {
            return Err("its certificate and private key do not belong together".to_owned());
        }
        Ok(identity)
    }

    pub fn to_text(&self) -> String {
        self.certificate_pem() + &self.key_pem()
    }

    pub fn certificate_der(&self) -> &[u8] {
        &self.certificate
    }

    pub fn certificate_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.certificate)
    }

    pub fn key_pem(&self) -> String {
        pem::encode("PRIVATE KEY", &self.key)
    }

    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    pub(super) fn key_pair(&self) -> Result<KeyPair, String> {
        KeyPair::try_from(self.key.as_slice()).map_err(|_| "its private key is not usable".to_owned())
    }

    pub fn subject(&self) -> Option<Subject> {
        let (_, certificate) = X509Certificate::from_der(&self.certificate).ok()?;
        Subject::read(certificate.subject()).ok()
    }

    /// From when until when the certificate is valid, in seconds since 1970.
    pub fn validity(&self) -> Option<(i64, i64)> {
        let (_, certificate) = X509Certificate::from_der(&self.certificate).ok()?;
        let validity = certificate.validity();
        Some((validity.not_before.timestamp(), validity.not_after.timestamp()))
    }

    /// Less than a third of the lifetime is left, or the clock says that it has not begun.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let Some((from, until)) = self.validity() else { return true };
        now.as_second() < from || (until - now.as_second()) < (until - from) / 3
    }

    /// Why this certificate must be issued anew, if it must.
    pub(super) fn reason_to_reissue(
        &self,
        wanted: &Profile,
        authority: &[u8],
        now: Timestamp,
    ) -> Option<&'static str> {
        let (Ok((_, certificate)), Ok((_, authority))) =
            (X509Certificate::from_der(&self.certificate), X509Certificate::from_der(authority))
        else {
            return Some("unreadable");
        };
        if certificate.verify_signature(Some(authority.public_key())).is_err() {
            return Some("issued by another authority");
        }
        if Subject::read(certificate.subject()).as_ref() != Ok(&wanted.subject) {
            return Some("another subject is wanted");
        }
        if alt_names(&certificate) != wanted.alt_names {
            return Some("other host names or addresses are wanted");
        }
        self.is_due(now).then_some("nearing its end")
    }
}

pub(super) fn alt_names(certificate: &X509Certificate<'_>) -> AltNames {
    let mut names = AltNames::default();
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return names };
    for name in &extension.value.general_names {
        match name {
            GeneralName::DNSName(name) => drop(names.dns.insert((*name).to_owned())),
            GeneralName::IPAddress(bytes) => names.ips.extend(super::csr::ip_address(bytes)),
            _ => {}
        }
    }
    names
}
