//! The name of content by its hash: `sha256:` and 64 digits.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::error::{ErrorCode, RegistryError};

const ALGORITHM: &str = "sha256:";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Digest::from_hash(Sha256::new_with_prefix(bytes))
    }

    pub fn from_hash(hash: Sha256) -> Self {
        Digest(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The digits, as files are called.
    pub fn hex(&self) -> &str {
        &self.0
    }

    pub fn from_hex(hex: &str) -> Option<Self> {
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        (hex.len() == 64 && hex.bytes().all(is_digit)).then(|| Digest(hex.to_owned()))
    }
}

impl FromStr for Digest {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        let digest = text.strip_prefix(ALGORITHM).and_then(Digest::from_hex);
        digest.ok_or_else(|| {
            let shown: String = text.chars().take(100).collect();
            let told =
                format!("{shown:?} is no digest that is known here: sha256: and 64 digits in lower case");
            RegistryError::new(ErrorCode::DigestInvalid, told)
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.0)
    }
}
