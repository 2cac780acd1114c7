//! Whether the first bytes of a connection are a proxy's: a TLS ClientHello that offers the mesh's protocol. TLS that the
//! pod itself speaks, and everything else, is not.

use super::tls::PROTOCOL;

const HANDSHAKE: u8 = 0x16;
const CLIENT_HELLO: u8 = 1;
const ALPN: u16 = 16;
/// A record is no longer.
const LONGEST: usize = (16 << 10) + 5;

/// `None` while more must come to know.
pub fn is_mesh(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [] => return None,
        [HANDSHAKE] | [HANDSHAKE, 3] | [HANDSHAKE, 3, _] | [HANDSHAKE, 3, _, _] => return None,
        [HANDSHAKE, 3, ..] => {}
        _ => return Some(false),
    }
    let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
    if length + 5 > LONGEST {
        return Some(false);
    }
    let record = bytes.get(5..5 + length)?;
    Some(offers(record).unwrap_or(false))
}

/// `None` if it is no such message.
fn offers(record: &[u8]) -> Option<bool> {
    let mut rest = record;
    let kind = take(&mut rest, 1)?[0];
    if kind != CLIENT_HELLO {
        return None;
    }
    take(&mut rest, 3)?;
    // Version and random, then three lists whose lengths are given.
    take(&mut rest, 34)?;
    list(&mut rest, 1)?;
    list(&mut rest, 2)?;
    list(&mut rest, 1)?;
    let mut extensions = list(&mut rest, 2)?;
    while !extensions.is_empty() {
        let kind = number(take(&mut extensions, 2)?);
        let mut content = list(&mut extensions, 2)?;
        if kind == usize::from(ALPN) {
            let mut names = list(&mut content, 2)?;
            while !names.is_empty() {
                if list(&mut names, 1)? == PROTOCOL {
                    return Some(true);
                }
            }
        }
    }
    Some(false)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

/// Bytes after their own length, which has so many bytes.
fn list<'a>(rest: &mut &'a [u8], width: usize) -> Option<&'a [u8]> {
    let length = number(take(rest, width)?);
    take(rest, length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes, it is told what it is, without a panic.
        #[test]
        fn anything_is_judged(mut bytes in prop::collection::vec(any::<u8>(), 0..300), begins: bool) {
            if begins {
                bytes.splice(0..0, [HANDSHAKE, 3, 1, 0, 100, CLIENT_HELLO, 0, 0, 96]);
            }
            let _ = is_mesh(&bytes);
        }
    }
}
