//! Protobuf's wire format: numbered fields, each a number or some bytes. Knows no message.

use crate::Fault;

/// Cuts a message into its fields, in the order in which they stand there.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// The value of one field as it stands in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next field's number and value.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, Fault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|&n| n > 0 && n < 1 << 29);
        let number = number.ok_or(Fault::FieldNumber(tag >> 3))?;
        let wire = match (tag & 7) as u8 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.fixed64()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Fault::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(self.fixed32()?),
            // 3 and 4 are groups, which no Kubernetes message has.
            other => return Err(Fault::WireType(other)),
        };
        Ok(Some((number, wire)))
    }

    /// Whether bytes are left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// A number of seven bits a byte, the lowest first.
    pub(crate) fn varint(&mut self) -> Result<u64, Fault> {
        let mut number = 0;
        for (index, &byte) in self.rest.iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                return Err(Fault::LongNumber);
            }
            number |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(number);
            }
        }
        Err(if self.rest.len() < 10 { Fault::Truncated } else { Fault::LongNumber })
    }

    pub(crate) fn fixed64(&mut self) -> Result<u64, Fault> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| Fault::Truncated)?))
    }

    fn fixed32(&mut self) -> Result<u32, Fault> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| Fault::Truncated)?))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Fault::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Wire<'a> {
    pub(crate) fn bytes(self) -> Result<&'a [u8], Fault> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(Fault::Mismatch),
        }
    }

    pub(crate) fn text(self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Fault::NotUtf8)
    }

    pub(crate) fn number(self) -> Result<u64, Fault> {
        match self {
            Wire::Varint(number) => Ok(number),
            _ => Err(Fault::Mismatch),
        }
    }

    /// Integers are two's complement, also 32-bit ones.
    pub(crate) fn integer(self) -> Result<i64, Fault> {
        self.number().map(u64::cast_signed)
    }

    pub(crate) fn float(self) -> Result<f64, Fault> {
        match self {
            Wire::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(Fault::Mismatch),
        }
    }

    /// What a Go encoder writes for a field that is not set.
    pub(crate) fn is_zero(self) -> bool {
        matches!(self, Wire::Varint(0) | Wire::Fixed64(0) | Wire::Fixed32(0) | Wire::Bytes([]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Result<&[(u32, Wire<'_>)], Fault>) {
        let mut reader = Reader::new(bytes);
        let mut fields = Vec::new();
        let got = loop {
            match reader.next() {
                Ok(Some(field)) => fields.push(field),
                Ok(None) => break Ok(()),
                Err(fault) => break Err(fault),
            }
        };
        match expected {
            Ok(expected) => assert_eq!((got, fields.as_slice()), (Ok(()), expected)),
            Err(fault) => assert_eq!(got, Err(fault), "{bytes:?}"),
        }
    }

    #[test]
    fn fields() {
        check(&[], Ok(&[]));
        check(&[0x08, 0x96, 0x01], Ok(&[(1, Wire::Varint(150))]));
        check(
            &[0x12, 2, b'h', b'i', 0x1d, 1, 0, 0, 0],
            Ok(&[(2, Wire::Bytes(b"hi")), (3, Wire::Fixed32(1))]),
        );
        check(&[0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f], Ok(&[(1, Wire::Fixed64(1.0_f64.to_bits()))]));
        let minus_one = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        check(&minus_one, Ok(&[(1, Wire::Varint(u64::MAX))]));
    }

    #[test]
    fn faults() {
        check(&[0x08], Err(Fault::Truncated));
        check(&[0x08, 0x80], Err(Fault::Truncated));
        check(&[0x12, 5, b'a'], Err(Fault::Truncated));
        check(&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Err(Fault::Truncated));
        check(&[0x0d, 1, 2, 3], Err(Fault::Truncated));
        check(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], Err(Fault::LongNumber));
        check(&[0x80; 12], Err(Fault::LongNumber));
        check(&[0x00, 0x00], Err(Fault::FieldNumber(0)));
        check(&[0x0b], Err(Fault::WireType(3)));
        check(&[0x0f], Err(Fault::WireType(7)));
    }
}
