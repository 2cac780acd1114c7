//! JSON web tokens, taken apart and checked. What a token says of itself is believed only after a key of its issuer has
//! signed it; until then it serves to find that issuer and that key, by comparison and nothing else. Pure.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Far above any token that a header holds.
const LONGEST: usize = 64 * 1024;
/// How far an issuer's clock may be ahead of ours.
const NOT_BEFORE_LEEWAY: i64 = 5 * 60;

/// Signatures with a public key. There is none that a shared secret makes, and there is no "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
}

impl Algorithm {
    pub const ALL: [Algorithm; 8] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
        }
    }

    pub fn parse(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that must be understood: there are none that we do.
    #[serde(default)]
    crit: Option<serde::de::IgnoredAny>,
}

/// A token that was taken apart; nothing in it is proven yet.
pub struct Jwt<'a> {
    pub algorithm: String,
    pub key_id: Option<String>,
    /// What is signed.
    pub signed: &'a [u8],
    pub signature: Vec<u8>,
    claims: Map<String, Value>,
    is_critical: bool,
}

impl<'a> Jwt<'a> {
    /// None if it is no such token.
    pub fn parse(token: &'a str) -> Option<Self> {
        if token.len() > LONGEST {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let header: Header = serde_json::from_slice(&decode(header)?).ok()?;
        let claims = serde_json::from_slice(&decode(claims)?).ok()?;
        Some(Jwt {
            algorithm: header.alg,
            key_id: header.kid.filter(|id| !id.is_empty()),
            signed: signed.as_bytes(),
            signature: decode(signature)?,
            claims,
            is_critical: header.crit.is_some(),
        })
    }

    /// By whom it says to be issued.
    pub fn issuer(&self) -> &str {
        self.claims.get("iss").and_then(Value::as_str).unwrap_or_default()
    }

    /// The algorithm, if it is one of those that count.
    pub fn algorithm(&self, allowed: &[Algorithm]) -> Result<Algorithm, String> {
        if self.is_critical {
            return Err("the token has extensions (crit) that are not known here".to_owned());
        }
        let found = Algorithm::parse(&self.algorithm).filter(|algorithm| allowed.contains(algorithm));
        found.ok_or_else(|| {
            let names: Vec<&str> = allowed.iter().map(|algorithm| algorithm.name()).collect();
            format!("the token is signed by {:?}, and one of {} is needed", self.algorithm, names.join(", "))
        })
    }

    /// The claims of a token whose signature was checked, if it counts now and for one of these audiences.
    pub fn claims(&self, audiences: &[String], now: i64) -> Result<&Map<String, Value>, String> {
        let found: Vec<&str> = match self.claims.get("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !audiences.iter().any(|audience| found.contains(&audience.as_str())) {
            return Err(format!("the token is meant for {found:?}, not for {audiences:?}"));
        }
        let expires = self.seconds("exp")?.ok_or("the token has no end (exp)")?;
        if expires <= now {
            return Err(format!("the token expired {} s ago", now.saturating_sub(expires)));
        }
        if let Some(begins) = self.seconds("nbf")?
            && begins > now.saturating_add(NOT_BEFORE_LEEWAY)
        {
            return Err(format!("the token is not valid yet, but in {} s", begins.saturating_sub(now)));
        }
        Ok(&self.claims)
    }

    fn seconds(&self, name: &str) -> Result<Option<i64>, String> {
        match self.claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Number(number)) => {
                let whole = number.as_i64().or(number.as_f64().map(|seconds| seconds as i64));
                whole.map(Some).ok_or_else(|| format!("the claim {name} is no time"))
            }
            Some(_) => Err(format!("the claim {name} is no time")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(header: &Value, claims: &Value) -> String {
        let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        format!("{}.{}.{}", part(header), part(claims), URL_SAFE_NO_PAD.encode("signature"))
    }

    #[test]
    fn algorithm_is_not_the_tokens_to_choose() {
        let check = |header: Value, allowed: bool| {
            let token = token(&header, &json!({}));
            let jwt = Jwt::parse(&token).unwrap();
            assert_eq!(jwt.algorithm(&[Algorithm::Rs256, Algorithm::Es256]).is_ok(), allowed, "{header}");
        };
        check(json!({"alg": "RS256"}), true);
        check(json!({"alg": "ES256", "kid": "../../etc/passwd"}), true);
        for wrong in ["none", "None", "NONE", "", "HS256", "HS512", "rs256", "ES384", "EdDSA"] {
            check(json!({"alg": wrong}), false);
        }
        check(json!({"alg": "RS256", "crit": ["exp"], "exp": 1}), false);
    }

    #[test]
    fn tokens_count_for_their_audience_and_time() {
        let check = |claims: Value, expected: &str| {
            let token = token(&json!({"alg": "RS256"}), &claims);
            let jwt = Jwt::parse(&token).unwrap();
            match jwt.claims(&["me".to_owned(), "us".to_owned()], 1000) {
                Ok(_) => assert_eq!(expected, "", "{claims}"),
                Err(why) => assert!(!expected.is_empty() && why.contains(expected), "{claims}: {why}"),
            }
        };
        check(json!({"aud": "me", "exp": 1001}), "");
        check(json!({"aud": ["them", "us"], "exp": 1001.5}), "");
        check(json!({"aud": ["them"], "exp": 1001}), "meant for");
        check(json!({"exp": 1001}), "meant for []");
        check(json!({"aud": {"me": 1}, "exp": 1001}), "meant for []");
        check(json!({"aud": "me"}), "has no end");
        check(json!({"aud": "me", "exp": "1001"}), "exp is no time");
        check(json!({"aud": "me", "exp": 1000}), "expired 0 s ago");
        check(json!({"aud": "me", "exp": 400}), "expired 600 s ago");
        check(json!({"aud": "me", "exp": i64::MIN}), "expired");
        check(json!({"aud": "me", "exp": 2000, "nbf": 1300}), "");
        check(json!({"aud": "me", "exp": 2000, "nbf": 1301}), "not valid yet");
    }

    #[test]
    fn fuzz_jwt_parse() {
        let sample =
            token(&json!({"alg": "RS256", "kid": "a"}), &json!({"iss": "https://a", "aud": "me", "exp": 9}));
        let inputs = [sample.as_bytes()];
        minik8s_fuzz::fuzz("jwt", 1, minik8s_fuzz::Corpus { inputs: &inputs, words: &[] }, |input| {
            if let Ok(text) = std::str::from_utf8(input)
                && let Some(jwt) = Jwt::parse(text)
            {
                let _ = (jwt.issuer().len(), jwt.claims(&["me".to_owned()], 5).is_ok());
            }
        });
    }
}
