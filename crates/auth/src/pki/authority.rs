//! The cluster's certificate authority: issues certificates, and nothing else.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::identity::Identity;
use super::{AltNames, PkiError, Subject, pem};

const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 3650);
/// Certificates start a little in the past, for clients whose clock is behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

/// What a certificate is to say.
#[derive(Debug, Clone)]
pub struct Profile {
    pub subject: Subject,
    pub alt_names: AltNames,
    pub usage: Usage,
    pub lifetime: SignedDuration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    Client,
    Server,
}

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    identity: Identity,
    not_after: i64,
}

impl Authority {
    /// A new authority with a new key. The time in its name keeps two clusters' authorities apart.
    pub fn create(now: Timestamp) -> Result<Identity, PkiError> {
        Self::create_named("minik8s-ca", now)
    }

    /// As [`Self::create`], for another purpose.
    pub fn create_named(purpose: &str, now: Timestamp) -> Result<Identity, PkiError> {
        let name = format!("{purpose}@{}", now.as_second());
        let key = generate_key(&name)?;
        Self::self_sign(&name, &key, now)
    }

    /// The same authority, key and name with a new lifetime: what it issued stays valid.
    pub fn renew(&self, now: Timestamp) -> Result<Identity, PkiError> {
        let name = self.identity.subject().map(|s| s.common_name).unwrap_or_default();
        Self::self_sign(&name, self.issuer.key(), now)
    }

    fn self_sign(name: &str, key: &KeyPair, now: Timestamp) -> Result<Identity, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.serial_number = Some(random_serial());
        set_lifetime(&mut params, now, now.as_second() + AUTHORITY_LIFETIME.as_secs());
        let certificate = params.self_signed(key).map_err(|source| failed(name, source))?;
        Ok(Identity::new(certificate.der().to_vec(), key))
    }

    pub fn from_identity(identity: Identity) -> Result<Self, String> {
        let key = identity.key_pair()?;
        let der = CertificateDer::from(identity.certificate_der().to_vec());
        let not_after = {
            let (_, certificate) = X509Certificate::from_der(&der).map_err(|e| e.to_string())?;
            if !certificate.is_ca() {
                return Err("its certificate is not an authority's".to_owned());
            }
            certificate.validity().not_after.timestamp()
        };
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|e| e.to_string())?;
        Ok(Authority { issuer, identity, not_after })
    }

    pub fn certificate_der(&self) -> &[u8] {
        self.identity.certificate_der()
    }

    pub fn certificate_pem(&self) -> String {
        pem::encode("CERTIFICATE", self.certificate_der())
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A certificate for a new key.
    pub fn issue(&self, profile: &Profile, now: Timestamp) -> Result<Identity, PkiError> {
        let key = generate_key(&profile.subject.common_name)?;
        Ok(Identity::new(self.certify(profile, &key, now)?, &key))
    }

    /// A certificate for someone else's public key, as DER. It never outlives the authority.
    pub fn certify(
        &self,
        profile: &Profile,
        public_key: &impl PublicKeyData,
        now: Timestamp,
    ) -> Result<Vec<u8>, PkiError> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = profile.alt_names.to_rcgen()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![match profile.usage {
            Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
            Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(random_serial());
        let until = now.as_second().saturating_add(profile.lifetime.as_secs());
        set_lifetime(&mut params, now, until.min(self.not_after));

        let failed = |source| failed(&profile.subject.common_name, source);
        let laid_out = params.signed_by(public_key, &self.issuer).map_err(failed)?;
        profile.subject.put_into(laid_out.der(), self.issuer.key()).map_err(failed)
    }
}

fn failed(subject: &str, source: rcgen::Error) -> PkiError {
    PkiError::Issue { subject: subject.to_owned(), source }
}

pub fn generate_key(subject: &str) -> Result<KeyPair, PkiError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(|source| failed(subject, source))
}

pub(super) fn random_serial() -> SerialNumber {
    let mut bytes: [u8; 16] = rand::random();
    // Serial numbers are positive and have no leading zero byte.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    SerialNumber::from_slice(&bytes)
}

/// rcgen's time type belongs to a crate we do not use: start from the epoch and add. Certificates know no
/// later year than 9999.
pub(super) fn set_lifetime(params: &mut CertificateParams, now: Timestamp, until: i64) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let last_second = 253_402_300_799;
    let after_epoch =
        |seconds: i64| epoch + Duration::from_secs(seconds.clamp(0, last_second).unsigned_abs());
    params.not_before = after_epoch(now.as_second() - BACKDATE.as_secs());
    params.not_after = after_epoch(until);
}
