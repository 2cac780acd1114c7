//! Writes the protobuf wire format: as much of it as OpenAPI documents need.

/// A message under construction.
#[derive(Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn bool(&mut self, field: u32, value: bool) {
        if value {
            self.varint(u64::from(field) << 3);
            self.varint(1);
        }
    }

    pub(super) fn string(&mut self, field: u32, text: &str) {
        if !text.is_empty() {
            self.element(field, text);
        }
    }

    /// An element of a repeated field, which counts also when empty.
    pub(super) fn element(&mut self, field: u32, text: &str) {
        self.header(field, text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// A message inside this one.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.header(field, inner.bytes.len());
        self.bytes.append(&mut inner.bytes);
    }

    fn header(&mut self, field: u32, length: usize) {
        const LENGTH_DELIMITED: u64 = 2;
        self.varint(u64::from(field) << 3 | LENGTH_DELIMITED);
        self.varint(length as u64);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_as_the_format_says() {
        let mut message = Message::default();
        message.string(1, "testing");
        message.string(2, "");
        message.bool(3, true);
        message.bool(4, false);
        message.message(31, |inner| inner.element(1, ""));
        let expected = [&[0x0a, 7][..], b"testing", &[0x18, 1, 0xfa, 0x01, 2, 0x0a, 0]].concat();
        assert_eq!(message.into_bytes(), expected);

        let mut long = Message::default();
        long.string(1, &"x".repeat(300));
        assert_eq!(long.into_bytes()[..3], [0x0a, 0xac, 0x02]);
    }
}
