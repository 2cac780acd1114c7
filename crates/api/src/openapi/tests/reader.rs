//! Reads the protobuf wire format, so that tests see what a client would.

/// The fields of a message as (number, content); a varint is kept as its bytes.
pub(super) fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => {
                let before = bytes;
                varint(&mut bytes);
                fields.push((tag >> 3, &before[..before.len() - bytes.len()]));
                continue;
            }
            2 => varint(&mut bytes) as usize,
            other => panic!("wire type {other}"),
        };
        let (content, rest) = bytes.split_at(length);
        fields.push((tag >> 3, content));
        bytes = rest;
    }
    fields
}

/// All fields with a number.
pub(super) fn all(bytes: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(bytes).into_iter().filter(move |(n, _)| *n == number).map(|(_, content)| content)
}

/// The way down through singular fields; empty if one is missing.
pub(super) fn get<'a>(bytes: &'a [u8], numbers: &[u64]) -> &'a [u8] {
    numbers.iter().fold(bytes, |bytes, &number| all(bytes, number).last().unwrap_or_default())
}

pub(super) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The value of the entry called `name` among repeated (name = 1, value = 2) messages.
pub(super) fn named<'a>(bytes: &'a [u8], number: u64, name: &str) -> &'a [u8] {
    let entry = all(bytes, number).find(|entry| text(get(entry, &[1])) == name);
    get(entry.unwrap_or_else(|| panic!("no {name}")), &[2])
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}
