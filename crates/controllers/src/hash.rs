//! Short names for templates, in the form that users know from pod names.

use serde::Serialize;

/// The letters that upstream uses: no vowels, so no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A hash of a value and of how often such hashes collided before. The same on every machine and in every
/// version of this program, as long as the value serialises the same.
pub fn short_hash<T: Serialize>(value: &T, collisions: i32) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    let mut hash = fnv1a(text.as_bytes());
    if collisions > 0 {
        hash = fnv1a_from(hash, &collisions.to_le_bytes());
    }
    let digits = hash.to_string();
    digits.bytes().map(|digit| LETTERS[usize::from(digit) % LETTERS.len()] as char).collect()
}

/// The 32-bit FNV-1a hash.
pub fn fnv1a(bytes: &[u8]) -> u32 {
    fnv1a_from(0x811c_9dc5, bytes)
}

fn fnv1a_from(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_and_distinct() {
        assert_eq!(short_hash(&"a", 0), short_hash(&"a", 0));
        assert_ne!(short_hash(&"a", 0), short_hash(&"b", 0));
        assert_ne!(short_hash(&"a", 0), short_hash(&"a", 1));
        assert!(short_hash(&"a", 0).len() <= 10);
        assert_eq!(fnv1a(b"a"), 0xe40c_292c, "the published test vector");
    }
}
