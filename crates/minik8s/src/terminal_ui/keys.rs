//! Keys, out of the bytes that a terminal sends for them. Pure; what is no key that anything is done with is left out.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Control(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Tab,
}

/// The keys in what was read at once. A lone escape is the key; with more behind it, it begins a sequence.
pub fn parse(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((first, rest)) = bytes.split_first() {
        let (key, length) = match first {
            b'\r' | b'\n' => (Some(Key::Enter), 1),
            b'\t' => (Some(Key::Tab), 1),
            0x7f | 0x08 => (Some(Key::Backspace), 1),
            0x1b if matches!(rest.first(), Some(b'[' | b'O')) => sequence(bytes),
            0x1b => (Some(Key::Escape), 1),
            control @ 1..=26 => (Some(Key::Control(char::from(control + b'a' - 1))), 1),
            0..=31 => (None, 1),
            _ => character(bytes),
        };
        keys.extend(key);
        bytes = &bytes[length.min(bytes.len())..];
    }
    keys
}

/// `ESC [ … letter` or `ESC O letter`, and how long it is.
fn sequence(bytes: &[u8]) -> (Option<Key>, usize) {
    let end = bytes.iter().skip(2).position(|byte| (0x40..=0x7e).contains(byte)).map(|at| at + 2);
    let Some(end) = end else { return (None, bytes.len()) };
    let key = match (&bytes[2..end], bytes[end]) {
        (b"", b'A') => Some(Key::Up),
        (b"", b'B') => Some(Key::Down),
        (b"", b'H') | (b"1" | b"7", b'~') => Some(Key::Home),
        (b"", b'F') | (b"4" | b"8", b'~') => Some(Key::End),
        (b"5", b'~') => Some(Key::PageUp),
        (b"6", b'~') => Some(Key::PageDown),
        _ => None,
    };
    (key, end + 1)
}

fn character(bytes: &[u8]) -> (Option<Key>, usize) {
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(character) => (Some(Key::Char(character)), character.len_utf8()),
        None => (None, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_keys() {
        let check = |bytes: &[u8], expected: &[Key]| assert_eq!(parse(bytes), expected, "{bytes:?}");
        check(b"jk", &[Key::Char('j'), Key::Char('k')]);
        check(b"\x1b", &[Key::Escape]);
        check(b"\x1b[A\x1b[6~\x1bOHx", &[Key::Up, Key::PageDown, Key::Home, Key::Char('x')]);
        check(b"\x04\r\x7f\t", &[Key::Control('d'), Key::Enter, Key::Backspace, Key::Tab]);
        check("中".as_bytes(), &[Key::Char('中')]);
        check(b"\xff\x00a\x1b[200", &[Key::Char('a')]);
    }
}
