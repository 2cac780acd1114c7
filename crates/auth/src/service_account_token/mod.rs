//! Service account tokens: signed statements of who a pod is, and for how long.
//!
//! [`TokenIssuer`] makes and verifies them. It proves that a token is ours, unexpired and meant for this
//! audience; whether the account, pod, node or secret that the token is bound to still exists is for the
//! caller, who has the store. It opens no socket and reads no clock.

mod cache;
mod claims;
mod discovery;
mod jws;
mod keys;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

use self::cache::VerifiedSignatures;
use self::claims::Claims;
pub use self::claims::{ObjectRef, TokenSpec, VerifiedToken};
use self::jws::Jws;
pub use self::keys::SigningKeys;

/// `iss` of tokens kept in Secrets, from before tokens had an audience or an end.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// How far a clock of another control plane host may be ahead of ours.
const CLOCK_SKEW: i64 = 60;
/// Far above any token we issue; keeps nonsense from being hashed and parsed.
const LONGEST_TOKEN: usize = 64 * 1024;

/// Why a bearer token is not accepted. All of these are a 401.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    #[error("the token is not a JSON web token")]
    Malformed,
    #[error("the token was issued by {0:?}, not by this cluster")]
    ForeignIssuer(String),
    #[error("the token's signature is not from any key of this cluster")]
    Signature,
    #[error("the token expired at {0}")]
    Expired(Timestamp),
    #[error("the token is not valid before {0}")]
    NotYetValid(Timestamp),
    #[error("the token is meant for {found:?}, not for {wanted:?}")]
    Audience { found: Vec<String>, wanted: Vec<String> },
    #[error("the token's claims are not those of a service account: {0}")]
    Claims(&'static str),
}

/// Issues and verifies tokens under one issuer URL.
pub struct TokenIssuer {
    issuer: String,
    /// Tokens of these are accepted, too: the issuer was called so before.
    others: Vec<String>,
    api_audiences: Vec<String>,
    keys: RwLock<Arc<SigningKeys>>,
    verified: VerifiedSignatures,
}

impl TokenIssuer {
    /// `issuer` is a URL such as `https://kubernetes.default.svc.cluster.local`; it is also the audience of
    /// tokens for the API server itself, unless `api_audiences` lists others.
    pub fn new(issuer: &str, api_audiences: &[&str], keys: Arc<SigningKeys>) -> Self {
        let audiences = if api_audiences.is_empty() { &[issuer][..] } else { api_audiences };
        TokenIssuer {
            issuer: issuer.to_owned(),
            others: Vec::new(),
            api_audiences: audiences.iter().map(|&a| a.to_owned()).collect(),
            keys: RwLock::new(keys),
            verified: VerifiedSignatures::default(),
        }
    }

    /// The same, also accepting tokens that it signed under other names.
    pub fn accepting(self, others: &[String]) -> Self {
        TokenIssuer { others: others.to_vec(), ..self }
    }

    /// Audiences that mean the API server.
    pub fn api_audiences(&self) -> &[String] {
        &self.api_audiences
    }

    /// Takes over the keys of a [`crate::pki::Pki`] that has changed them.
    pub fn set_keys(&self, keys: Arc<SigningKeys>) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        self.verified.clear();
    }

    fn keys(&self) -> Arc<SigningKeys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A token that ends at `now + lifetime`.
    pub fn issue(
        &self,
        spec: &TokenSpec,
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<String, TokenError> {
        let mut claims = Claims::bound(spec, &self.issuer, lifetime, now);
        if claims.aud.is_empty() {
            claims.aud = self.api_audiences.clone();
        }
        self.sign(&claims)
    }

    /// A token without end, for a Secret of type `kubernetes.io/service-account-token`.
    pub fn issue_for_secret(
        &self,
        namespace: &str,
        account: &ObjectRef,
        secret_name: &str,
    ) -> Result<String, TokenError> {
        self.sign(&Claims::legacy(namespace, account, secret_name))
    }

    fn sign(&self, claims: &Claims) -> Result<String, TokenError> {
        let keys = self.keys();
        jws::sign(claims, &keys.current().id, keys.signing())
    }

    /// Verifies a bearer token for the API server.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<VerifiedToken, TokenError> {
        self.verify_for(token, &self.api_audiences, now)
    }

    /// Verifies a token for any of these audiences, as a TokenReview asks.
    pub fn verify_for(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenError> {
        let claims = match self.verified.get(token) {
            Some(claims) => claims,
            None => self.verified.insert(token, self.check_signature(token)?),
        };
        claims.check_dates(now)?;
        let token = claims.to_verified(&self.api_audiences)?;
        if !token.audiences.iter().any(|a| audiences.contains(a)) {
            return Err(TokenError::Audience { found: token.audiences, wanted: audiences.to_vec() });
        }
        Ok(token)
    }

    fn check_signature(&self, token: &str) -> Result<Claims, TokenError> {
        if token.len() > LONGEST_TOKEN {
            return Err(TokenError::Malformed);
        }
        let jws = Jws::parse(token)?;
        let keys = self.keys();
        if !keys.candidates(jws.key_id.as_deref()).any(|key| jws.is_signed_by(&key.point)) {
            return Err(TokenError::Signature);
        }
        // Dates and audiences are checked against the caller's clock and wishes, not here.
        let claims: Claims =
            serde_json::from_slice(&jws.claims()?).map_err(|_| TokenError::Claims("they cannot be read"))?;
        let is_known = claims.iss == self.issuer || self.others.contains(&claims.iss);
        if !is_known && claims.iss != LEGACY_ISSUER {
            return Err(TokenError::ForeignIssuer(claims.iss));
        }
        Ok(claims)
    }
}
