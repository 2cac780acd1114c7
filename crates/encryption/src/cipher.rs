//! The ciphers that take a key from the configuration: bytes in, bytes out. Nonces are random, so a key of AES-GCM is
//! good for some hundred thousand writes, as upstream's documentation says of it too.

use aes::{Aes128, Aes192, Aes256};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use salsa20::XSalsa20;
use salsa20::cipher::StreamCipher;
use subtle::ConstantTimeEq;

const BLOCK: usize = 16;
const TAG: usize = 16;
const SALSA_NONCE: usize = 24;
/// The start of the key stream is the authenticator's key.
const POLY_KEY: usize = 32;

/// It was not sealed by this key, for this place, or was changed since.
#[derive(Debug, PartialEq, Eq)]
pub struct CannotOpen;

/// The machine gives no random bytes.
#[derive(Debug)]
pub struct NoRandomness;

pub enum Cipher {
    AesGcm(Box<LessSafeKey>),
    AesCbc(Vec<u8>),
    Secretbox([u8; 32]),
}

impl Cipher {
    /// None for a key of a length that it does not take.
    pub fn aes_gcm(key: &[u8]) -> Option<Cipher> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            32 => &AES_256_GCM,
            _ => return None,
        };
        let key = UnboundKey::new(algorithm, key).ok()?;
        Some(Cipher::AesGcm(Box::new(LessSafeKey::new(key))))
    }

    pub fn aes_cbc(key: &[u8]) -> Option<Cipher> {
        matches!(key.len(), 16 | 24 | 32).then(|| Cipher::AesCbc(key.to_vec()))
    }

    pub fn secretbox(key: &[u8]) -> Option<Cipher> {
        key.try_into().ok().map(Cipher::Secretbox)
    }

    /// Appends the sealed value. `place` is authenticated where the cipher can.
    pub fn seal(&self, place: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), NoRandomness> {
        match self {
            Cipher::AesGcm(key) => {
                let nonce = random::<NONCE_LEN>()?;
                out.extend_from_slice(&nonce);
                let start = out.len();
                out.extend_from_slice(value);
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(place), &mut out[start..]);
                out.extend_from_slice(tag.map_err(|_| NoRandomness)?.as_ref());
            }
            Cipher::AesCbc(key) => {
                let iv = random::<BLOCK>()?;
                out.extend_from_slice(&iv);
                out.extend_from_slice(&cbc_seal(key, &iv, value).ok_or(NoRandomness)?);
            }
            Cipher::Secretbox(key) => {
                let nonce = random::<SALSA_NONCE>()?;
                out.extend_from_slice(&nonce);
                let mut text = value.to_vec();
                let tag = secretbox(key, &nonce, &mut text, Direction::Seal);
                out.extend_from_slice(&tag);
                out.extend_from_slice(&text);
            }
        }
        Ok(())
    }

    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, CannotOpen> {
        match self {
            Cipher::AesGcm(key) => {
                let (nonce, text) = sealed.split_at_checked(NONCE_LEN).ok_or(CannotOpen)?;
                let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| CannotOpen)?;
                let mut text = text.to_vec();
                let length = key.open_in_place(nonce, Aad::from(place), &mut text);
                let length = length.map_err(|_| CannotOpen)?.len();
                text.truncate(length);
                Ok(text)
            }
            Cipher::AesCbc(key) => {
                let (iv, text) = sealed.split_first_chunk::<BLOCK>().ok_or(CannotOpen)?;
                cbc_open(key, iv, text).ok_or(CannotOpen)
            }
            Cipher::Secretbox(key) => {
                let (nonce, rest) = sealed.split_first_chunk::<SALSA_NONCE>().ok_or(CannotOpen)?;
                let (tag, text) = rest.split_at_checked(TAG).ok_or(CannotOpen)?;
                let mut text = text.to_vec();
                let expected = secretbox(key, nonce, &mut text, Direction::Open);
                if bool::from(expected[..].ct_eq(tag)) { Ok(text) } else { Err(CannotOpen) }
            }
        }
    }
}

pub fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

fn cbc_seal(key: &[u8], iv: &[u8; BLOCK], value: &[u8]) -> Option<Vec<u8>> {
    Some(match key.len() {
        16 => cbc::Encryptor::<Aes128>::new_from_slices(key, iv).ok()?.encrypt_padded_vec::<Pkcs7>(value),
        24 => cbc::Encryptor::<Aes192>::new_from_slices(key, iv).ok()?.encrypt_padded_vec::<Pkcs7>(value),
        _ => cbc::Encryptor::<Aes256>::new_from_slices(key, iv).ok()?.encrypt_padded_vec::<Pkcs7>(value),
    })
}

fn cbc_open(key: &[u8], iv: &[u8; BLOCK], text: &[u8]) -> Option<Vec<u8>> {
    match key.len() {
        16 => cbc::Decryptor::<Aes128>::new_from_slices(key, iv).ok()?.decrypt_padded_vec::<Pkcs7>(text).ok(),
        24 => cbc::Decryptor::<Aes192>::new_from_slices(key, iv).ok()?.decrypt_padded_vec::<Pkcs7>(text).ok(),
        _ => cbc::Decryptor::<Aes256>::new_from_slices(key, iv).ok()?.decrypt_padded_vec::<Pkcs7>(text).ok(),
    }
}

#[derive(PartialEq)]
enum Direction {
    Seal,
    Open,
}

/// NaCl's secretbox over `text` in its place; returns the tag of the sealed text.
fn secretbox(key: &[u8; 32], nonce: &[u8; SALSA_NONCE], text: &mut [u8], direction: Direction) -> [u8; TAG] {
    let mut stream = XSalsa20::new(key.into(), nonce.into());
    let mut poly_key = [0; POLY_KEY];
    stream.apply_keystream(&mut poly_key);
    let poly = Poly1305::new((&poly_key).into());
    if direction == Direction::Seal {
        stream.apply_keystream(text);
        poly.compute_unpadded(text).into()
    } else {
        let tag = poly.compute_unpadded(text);
        stream.apply_keystream(text);
        tag.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> Vec<Cipher> {
        let key = [7; 32];
        let ciphers = [
            Cipher::aes_gcm(&key[..16]),
            Cipher::aes_gcm(&key),
            Cipher::aes_cbc(&key[..16]),
            Cipher::aes_cbc(&key[..24]),
            Cipher::aes_cbc(&key),
            Cipher::secretbox(&key),
        ];
        ciphers.into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn keys_have_their_lengths() {
        for length in 0..40 {
            let key = vec![1; length];
            assert_eq!(Cipher::aes_gcm(&key).is_some(), matches!(length, 16 | 32), "{length}");
            assert_eq!(Cipher::aes_cbc(&key).is_some(), matches!(length, 16 | 24 | 32), "{length}");
            assert_eq!(Cipher::secretbox(&key).is_some(), length == 32, "{length}");
        }
    }

    /// The vector of NaCl's own tests (secretbox).
    #[test]
    fn secretbox_is_nacls() {
        let bytes = |text: &str| -> Vec<u8> {
            let digits = text.as_bytes().chunks(2);
            digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
        };
        let key = bytes("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389");
        let nonce = bytes("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37");
        let plain = bytes(
            "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c6129\
             6cdc3c01233561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde\
             048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f937763848645e0705",
        );
        let sealed = bytes(
            "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186a\
             c0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae\
             90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74\
             e355a5",
        );
        let whole = [nonce.as_slice(), &sealed].concat();
        assert_eq!(Cipher::secretbox(&key).unwrap().open(b"", &whole), Ok(plain));
    }

    #[test]
    fn value_is_opened_where_it_was_sealed_by_its_key_only() {
        for cipher in all() {
            for value in [&b""[..], b"x", &[3; 16], &[9; 5000]] {
                let mut sealed = Vec::new();
                cipher.seal(b"/a", value, &mut sealed).unwrap();
                assert_eq!(cipher.open(b"/a", &sealed).as_deref(), Ok(value));
                assert!(value.len() < 16 || !sealed.windows(16).any(|part| part == &value[..16]));
                if matches!(cipher, Cipher::AesGcm(_)) {
                    assert_eq!(cipher.open(b"/b", &sealed), Err(CannotOpen));
                }
            }
        }
        let mut sealed = Vec::new();
        Cipher::aes_gcm(&[1; 32]).unwrap().seal(b"", b"value", &mut sealed).unwrap();
        assert_eq!(Cipher::aes_gcm(&[2; 32]).unwrap().open(b"", &sealed), Err(CannotOpen));
    }

    proptest! {
        #[test]
        fn whatever_bytes_are_opened_nothing_breaks(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for cipher in all() {
                let opened = cipher.open(b"/a", &bytes);
                prop_assert!(opened.is_err() || matches!(cipher, Cipher::AesCbc(_)));
            }
        }
    }
}
