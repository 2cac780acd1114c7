//! Whether a body is signed with a key: HMAC-SHA256 in a header, as GitHub and many others do. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use sha2::{Digest, Sha256};

/// Either of them; `sha256=` before the hexadecimal or base64 digits is usual.
pub const HEADERS: [&str; 2] = ["x-hub-signature-256", "x-signature-256"];
const BLOCK: usize = 64;

/// Whether some header has the right signature. An empty key signs nothing.
pub fn is_signed(headers: &HeaderMap, body: &[u8], key: &[u8]) -> bool {
    let expected = hmac(key, body);
    let given =
        HEADERS.iter().flat_map(|name| headers.get_all(*name)).filter_map(|value| value.to_str().ok());
    !key.is_empty() && given.filter_map(decode).any(|given| same(&given, &expected))
}

/// RFC 2104.
pub fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let text = text.strip_prefix("sha256=").unwrap_or(text);
    if text.len() == 64 && text.is_ascii() {
        return (0..32).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect();
    }
    STANDARD.decode(text).ok()
}

/// Takes as long whatever differs: time must not tell how much of a guess was right.
fn same(given: &[u8], expected: &[u8; 32]) -> bool {
    given.len() == expected.len() && given.iter().zip(expected).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 4231, cases 2 and 6.
    #[test]
    fn hmac_is_as_the_standard_says() {
        let short = hmac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(&short), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(&long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn only_the_key_and_the_body_make_a_signature() {
        let good = format!("sha256={}", hex(&hmac(b"key", b"body")));
        let check = |header: &'static str, value: &str, body: &[u8], key: &[u8]| {
            let headers: HeaderMap =
                [(header.parse().unwrap(), value.parse().unwrap())].into_iter().collect();
            is_signed(&headers, body, key)
        };
        assert!(check("x-hub-signature-256", &good, b"body", b"key"));
        assert!(check("x-signature-256", &STANDARD.encode(hmac(b"key", b"body")), b"body", b"key"));
        assert!(!check("x-hub-signature-256", &good, b"bodY", b"key"));
        assert!(!check("x-hub-signature-256", &good, b"body", b"Key"));
        assert!(!check("x-other", &good, b"body", b"key"));
        for wrong in
            ["", "sha256=", "sha256=zz", "sha1=aa", &good[..40], &"0".repeat(64), "ä".repeat(32).as_str()]
        {
            if let Ok(value) = wrong.parse() {
                let headers: HeaderMap =
                    [("x-hub-signature-256".parse().unwrap(), value)].into_iter().collect();
                assert!(!is_signed(&headers, b"body", b"key"), "{wrong}");
            }
        }
        let empty = format!("sha256={}", hex(&hmac(b"", b"body")));
        assert!(!check("x-hub-signature-256", &empty, b"body", b""), "an empty key signs nothing");
    }
}
