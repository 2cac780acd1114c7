//! The issuer as OpenID Connect sees it, so that others can verify our tokens without asking us.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::TokenIssuer;

impl TokenIssuer {
    pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
    pub const KEYS_PATH: &str = "/openid/v1/jwks";
    pub const KEYS_CONTENT_TYPE: &str = "application/jwk-set+json";

    /// The document at [`Self::CONFIGURATION_PATH`]. `server_url` is where this server is reached.
    pub fn openid_configuration(&self, server_url: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("{}{}", server_url.trim_end_matches('/'), Self::KEYS_PATH),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    /// The document at [`Self::KEYS_PATH`]: every public key that verifies tokens.
    pub fn jwks(&self) -> Value {
        let keys = self.keys();
        let keys: Vec<Value> = keys
            .public()
            .iter()
            .map(|key| {
                let half = |range| URL_SAFE_NO_PAD.encode(key.point.get(range).unwrap_or_default());
                json!({
                    "use": "sig",
                    "kty": "EC",
                    "kid": key.id,
                    "crv": "P-256",
                    "alg": "ES256",
                    "x": half(1..33),
                    "y": half(33..65),
                })
            })
            .collect();
        json!({ "keys": keys })
    }
}
