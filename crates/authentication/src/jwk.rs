//! The public keys of an issuer (RFC 7517), and what they have signed. A key that cannot be used is left out, so that one
//! of another kind does not hide the others. Pure.

use base64::Engine;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use crate::jwt::{Algorithm, Jwt};

/// More keys than this are not looked at.
const MOST: usize = 200;

#[derive(Deserialize)]
struct Set {
    #[serde(default)]
    keys: Vec<Jwk>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Jwk {
    kty: String,
    kid: String,
    alg: String,
    #[serde(rename = "use")]
    usage: String,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

pub struct Key {
    id: String,
    /// The only one that it is for, where the set says so.
    algorithm: Option<String>,
    material: Material,
}

enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
}

/// The keys of a set that sign tokens; an error if it is none.
pub fn parse(text: &[u8]) -> Result<Vec<Key>, String> {
    let set: Set = serde_json::from_slice(text).map_err(|error| format!("it is no set of keys: {error}"))?;
    Ok(set.keys.into_iter().take(MOST).filter_map(Key::of).collect())
}

impl Key {
    fn of(jwk: Jwk) -> Option<Key> {
        if !matches!(jwk.usage.as_str(), "" | "sig") {
            return None;
        }
        let material = match (jwk.kty.as_str(), jwk.crv.as_str()) {
            ("RSA", _) => Material::Rsa { n: number(&jwk.n)?, e: number(&jwk.e)? },
            ("EC", "P-256") => Material::P256(point(&jwk, 32)?),
            ("EC", "P-384") => Material::P384(point(&jwk, 48)?),
            _ => return None,
        };
        let algorithm = (!jwk.alg.is_empty()).then_some(jwk.alg);
        Some(Key { id: jwk.kid, algorithm, material })
    }

    /// Whether a token may be signed by this one: it names it, or none at all.
    pub fn is_meant(&self, jwt: &Jwt<'_>) -> bool {
        jwt.key_id.as_ref().is_none_or(|id| *id == self.id)
    }

    /// Only by an algorithm of this very kind of key.
    pub fn signed(&self, jwt: &Jwt<'_>, algorithm: Algorithm) -> bool {
        if self.algorithm.as_deref().is_some_and(|own| own != algorithm.name()) {
            return false;
        }
        let rsa = |parameters: &RsaParameters| match &self.material {
            Material::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(parameters, jwt.signed, &jwt.signature).is_ok()
            }
            _ => false,
        };
        match (algorithm, &self.material) {
            (Algorithm::Rs256, _) => rsa(&RSA_PKCS1_2048_8192_SHA256),
            (Algorithm::Rs384, _) => rsa(&RSA_PKCS1_2048_8192_SHA384),
            (Algorithm::Rs512, _) => rsa(&RSA_PKCS1_2048_8192_SHA512),
            (Algorithm::Ps256, _) => rsa(&RSA_PSS_2048_8192_SHA256),
            (Algorithm::Ps384, _) => rsa(&RSA_PSS_2048_8192_SHA384),
            (Algorithm::Ps512, _) => rsa(&RSA_PSS_2048_8192_SHA512),
            (Algorithm::Es256, Material::P256(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                    .verify(jwt.signed, &jwt.signature)
                    .is_ok()
            }
            (Algorithm::Es384, Material::P384(point)) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
                    .verify(jwt.signed, &jwt.signature)
                    .is_ok()
            }
            _ => false,
        }
    }
}

/// Without zeros in front, which ring does not take.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = decode(text)?;
    let start = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[start..].to_vec())
}

/// Uncompressed: 4, then x and y.
fn point(jwk: &Jwk, size: usize) -> Option<Vec<u8>> {
    let mut point = vec![4];
    for coordinate in [&jwk.x, &jwk.y] {
        let bytes = decode(coordinate)?;
        let missing = size.checked_sub(bytes.len())?;
        point.extend(std::iter::repeat_n(0, missing));
        point.extend(bytes);
    }
    Some(point)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).or_else(|_| URL_SAFE.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_cannot_be_used_are_left_out() {
        let set = br#"{"keys": [
            {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
            {"kty": "RSA", "n": "!", "e": "AQAB"},
            {"kty": "RSA", "n": "AQ", "e": "AQAB", "use": "enc"},
            {"kty": "EC", "crv": "secp256k1", "x": "AQ", "y": "AQ"},
            {"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ", "kid": "good"},
            {}
        ]}"#;
        let keys = parse(set).unwrap();
        assert_eq!(keys.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["good"]);
        assert!(parse(b"\"x\"").is_err() && parse(b"<html>").is_err());
        assert_eq!(parse(b"{}").unwrap().len(), 0);
    }

    const N: &str = "qfA8YGZXapMVeOquFJHVlT9GVNkP4ik30IhARBrZwYYDWClXE7AZF6N1Gvk_VifIPF1zhEP4TT7t3YMvC6JV5-\
         XmE6m1hSoRA1uQiXuzjuPyV8MEKN8_I8Es2tfBrD6x5ZKIyO9jU_YLxDz31_lbePq-\
         f8qHhpGrUiCKwwiwq2syd7_MBpxPv2ZmSOqw9I3Rf0hWKiO2fu3_iUT7B6fi5NgorAQbUgGo68Gf4_iXpCgKaUlilacIraq9xNoP\
         aJmEo-UF-AH74GJSXY57wRuhAvnrXv7UXIDQl7ziaJMG5LoZ5We-qLrxHvETH_RnmUU20wBeY1dEL4A6qoBrgfjKLw";
    const RS256: &str = "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9hLmV4YW1wbGUiLCAic3ViIjogImFubiJ9.EG\
         vQRvMcxYoZLIfWsQ6e7g8vLN1za4ZYAv5BwB7BhupZ0fYPSVwVQmi1twIrJwPsm7kwztUPwOdgx6tnwzmRrisoRcZjneki-\
         IOXOM8ejNoHbMymLoziAFh4c0PfdpQT5BTZd9YSlYhQchF18wI2uDQb9MKYydw-gv_KABC3Ysql-APM4DicoNFhE91kfcjwamjU_\
         dp2cl1quxi_vXH77Lg4pBCLTtv9In0KdB39OaLz6J5DAQaKau9xQdeTSJS5wmU89lj7q5lrMoa8azfhmcwsaAF0lPXe0V3NJS9nn\
         L79v_82l6909uLQwuHzFukwalJTIcSj6Zgb5wyf-9wdFw";
    const PS256: &str = "eyJhbGciOiAiUFMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9hLmV4YW1wbGUiLCAic3ViIjogImFubiJ9.Vp\
         CfZOhz_cnbKt8hryekQFelfsYeGj8QdMl6WV5OhsYocobmNOmkmfW3maUXVvJBuxfGLUICBkzS4rb8f97oMu1yrdChYGgAaJ2BO9\
         yOyjxYszA9wYqPMERs0XZT8uiihcdnomB1x8o9ogVtOFHR-KJa37Ejd8EiPhq2iauMzM62vCN-\
         C3gBhLx7nC9I757NSLfG5gAHl22oA4XNGMuBqVDzQhh_84L5R2pNnODW6_DfqPo2VEM5Hf6AsOlEA4V5FcSPQDBHnp7htL51Opkb\
         QceHy0H0d1DGwI1gXVzBjXyRYnQVsrqrpzsy1XDgzsCs4anzC1rzziojO2weJ-em9w";

    /// Both made by openssl, with one key.
    #[test]
    fn rsa_signatures_count_by_their_algorithm_only() {
        let set = |more: &str| {
            format!(
                "{{\"keys\": [{{\"kty\": \"RSA\", \"kid\": \"rsa\", \"e\": \"AQAB\", \"n\": \"{N}\"{more}}}]}}"
            )
        };
        let signed = |token: &str, more: &str, algorithm: Algorithm| {
            let jwt = Jwt::parse(token).unwrap();
            let keys = parse(set(more).as_bytes()).unwrap();
            keys[0].is_meant(&jwt) && keys[0].signed(&jwt, algorithm)
        };
        assert!(signed(RS256, "", Algorithm::Rs256));
        assert!(signed(PS256, "", Algorithm::Ps256));
        assert!(signed(RS256, ", \"alg\": \"RS256\"", Algorithm::Rs256));
        assert!(!signed(RS256, ", \"alg\": \"PS256\"", Algorithm::Rs256));
        for other in
            [Algorithm::Ps256, Algorithm::Rs384, Algorithm::Rs512, Algorithm::Es256, Algorithm::Es384]
        {
            assert!(!signed(RS256, "", other), "{other:?}");
        }
        let changed = RS256.replacen("eyJpc3", "eyJpc4", 1);
        assert!(Jwt::parse(&changed).is_none() || !signed(&changed, "", Algorithm::Rs256));
    }

    #[test]
    fn fuzz_jwk_parse() {
        let seed = br#"{"keys": [{"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ", "kid": "a"}, {"kty": "RSA", "n": "AQ", "e": "AQAB"}]}"#;
        let corpus = minik8s_fuzz::Corpus { inputs: &[seed], words: &["RSA", "P-384", "enc"] };
        minik8s_fuzz::fuzz("jwk", 1, corpus, |input| drop(parse(input)));
    }
}
