//! The keys of service account tokens: one that signs, and public ones that still verify.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData, SubjectPublicKeyInfo};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use sha2::{Digest, Sha256};

use crate::pki::encode_pem;

/// ECDSA P-256 keys.
pub struct SigningKeys {
    private: KeyPair,
    signing: EcdsaKeyPair,
    /// The current one first; there is always one.
    public: Vec<VerifyingKey>,
}

pub struct VerifyingKey {
    /// `kid`: the digest of the public key, so that every server computes the same.
    pub id: String,
    /// Uncompressed: 4, then x and y with 32 bytes each.
    pub point: Vec<u8>,
    spki: Vec<u8>,
}

impl SigningKeys {
    pub fn generate() -> Result<Self, rcgen::Error> {
        Self::from_pair(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
    }

    /// The error says what is wrong with the text.
    pub fn from_private_key_pem(text: &str) -> Result<Self, String> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes())
            .map_err(|_| "it holds no readable private key".to_owned())?;
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ECDSA_P256_SHA256);
        pair.and_then(Self::from_pair).map_err(|_| "its private key is not an ECDSA P-256 key".to_owned())
    }

    fn from_pair(pair: KeyPair) -> Result<Self, rcgen::Error> {
        let der = pair.serialize_der();
        let signing = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new())
            .map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
        let public = VerifyingKey::new(pair.subject_public_key_info(), pair.public_key_raw());
        Ok(SigningKeys { private: pair, signing, public: vec![public] })
    }

    /// Adds keys of tokens signed in the past; those already known are left out.
    pub fn add_old_public_keys(&mut self, text: &str) -> Result<(), String> {
        for der in SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes()) {
            let der = der.map_err(|_| "it holds something other than public keys".to_owned())?;
            let info = SubjectPublicKeyInfo::from_der(&der)
                .map_err(|_| "it holds a public key of an unknown kind".to_owned())?;
            if *info.algorithm() != PKCS_ECDSA_P256_SHA256 {
                return Err("it holds a public key that is not ECDSA P-256".to_owned());
            }
            let key = VerifyingKey::new(der.to_vec(), info.der_bytes());
            if self.public.iter().all(|known| known.id != key.id) {
                self.public.push(key);
            }
        }
        Ok(())
    }

    pub fn private_key_pem(&self) -> String {
        encode_pem("PRIVATE KEY", &self.private.serialize_der())
    }

    /// All public keys, the current one first.
    pub fn public_keys_pem(&self) -> String {
        self.public.iter().map(|key| encode_pem("PUBLIC KEY", &key.spki)).collect()
    }

    pub fn current(&self) -> &VerifyingKey {
        &self.public[0]
    }

    pub(super) fn signing(&self) -> &EcdsaKeyPair {
        &self.signing
    }

    pub(super) fn public(&self) -> &[VerifyingKey] {
        &self.public
    }

    /// Keys that may have signed a token with this `kid`: all if it has none.
    pub(super) fn candidates(&self, id: Option<&str>) -> impl Iterator<Item = &VerifyingKey> {
        self.public.iter().filter(move |key| id.is_none_or(|id| id == key.id))
    }
}

impl VerifyingKey {
    fn new(spki: Vec<u8>, point: &[u8]) -> Self {
        VerifyingKey { id: URL_SAFE_NO_PAD.encode(Sha256::digest(&spki)), point: point.to_vec(), spki }
    }
}
