//! JSON web tokens in the one form that this cluster issues: compact, ES256.
//!
//! The algorithm is not the token's to choose: whatever a header says, a signature is checked as ECDSA on P-256 with
//! SHA-256 or not at all. It never looks at the claims.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, EcdsaKeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use super::TokenError;

const ALGORITHM: &str = "ES256";

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    /// Extensions that must be understood: there are none that we do.
    #[serde(default, skip_serializing)]
    crit: Option<serde::de::IgnoredAny>,
}

/// A token that was taken apart; nothing in it is proven yet.
pub struct Jws<'a> {
    /// Which key is said to have signed it.
    pub key_id: Option<String>,
    signed: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    pub fn parse(token: &'a str) -> Result<Self, TokenError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        if claims.contains('.') {
            return Err(TokenError::Malformed);
        }
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| TokenError::Malformed)?;
        if header.alg != ALGORITHM || header.crit.is_some() {
            return Err(TokenError::Signature);
        }
        Ok(Jws { key_id: header.kid, signed, claims, signature: decode(signature)? })
    }

    /// `point` is the public key, uncompressed.
    pub fn is_signed_by(&self, point: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        key.verify(self.signed.as_bytes(), &self.signature).is_ok()
    }

    /// The text of the claims, for whoever has checked the signature.
    pub fn claims(&self) -> Result<Vec<u8>, TokenError> {
        decode(self.claims)
    }
}

pub fn sign(claims: &impl Serialize, key_id: &str, key: &EcdsaKeyPair) -> Result<String, TokenError> {
    let header = Header { alg: ALGORITHM.to_owned(), kid: Some(key_id.to_owned()), crit: None };
    let part = |json: serde_json::Result<Vec<u8>>| {
        Ok(URL_SAFE_NO_PAD.encode(json.map_err(|_| TokenError::Signature)?))
    };
    let mut token = format!("{}.{}", part(serde_json::to_vec(&header))?, part(serde_json::to_vec(claims))?);
    let signature = key.sign(&SystemRandom::new(), token.as_bytes()).map_err(|_| TokenError::Signature)?;
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token)
}

fn decode(part: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)
}
