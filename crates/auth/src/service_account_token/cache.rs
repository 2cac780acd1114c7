//! Remembers which tokens had a good signature: a pod sends the same token with every request, and a
//! signature check costs more than the rest of the request.
//!
//! Only the signature is remembered. Dates, audiences and bound objects are checked every time.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};

use super::claims::Claims;

const MOST_TOKENS: usize = 4096;

#[derive(Default)]
pub struct VerifiedSignatures {
    /// Keyed by digest, so that no token stays in memory.
    tokens: RwLock<HashMap<[u8; 32], Arc<Claims>>>,
}

impl VerifiedSignatures {
    pub fn get(&self, token: &str) -> Option<Arc<Claims>> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        tokens.get(&digest(token)).cloned()
    }

    pub fn insert(&self, token: &str, claims: Claims) -> Arc<Claims> {
        let claims = Arc::new(claims);
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MOST_TOKENS {
            // Tokens in use come back by themselves; expired ones do not.
            tokens.clear();
        }
        tokens.insert(digest(token), claims.clone());
        claims
    }

    pub fn clear(&self) {
        self.tokens.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
