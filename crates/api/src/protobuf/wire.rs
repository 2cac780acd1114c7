//! Reads the protobuf wire format.

/// What is wrong with the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("it ends in the middle of a field")]
    Truncated,
    #[error("a number is too long")]
    LongNumber,
    #[error("a field has a wire type that is not in use")]
    WireType,
    #[error("a field is of another type than its number says")]
    Mismatch,
    #[error("a text is not UTF-8")]
    NotUtf8,
    #[error("JSON inside it is not valid")]
    InnerJson,
    #[error("a time is out of range")]
    Time,
    #[error("it nests too deeply")]
    TooDeep,
}

/// One value, as far as the wire tells what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

impl<'a> Token<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Token::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::Mismatch),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::NotUtf8)
    }

    /// Negative numbers fill all 64 bits, whatever the width of the field.
    pub(super) fn int(self) -> Result<i64, Malformed> {
        match self {
            Token::Varint(number) => Ok(number as i64),
            _ => Err(Malformed::Mismatch),
        }
    }

    pub(super) fn is_zero(self) -> bool {
        matches!(self, Token::Varint(0) | Token::Fixed64(0) | Token::Bytes([]))
    }
}

/// The fields of a message: their numbers and values, in the order they were sent.
pub(super) fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Token<'a>), Malformed> {
        let tag = varint(&mut self.rest)?;
        let token = match tag & 7 {
            0 => Token::Varint(varint(&mut self.rest)?),
            1 => Token::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = varint(&mut self.rest)?;
                Token::Bytes(self.take(usize::try_from(length).map_err(|_| Malformed::Truncated)?)?)
            }
            5 => Token::Fixed64(u32::from_le_bytes(self.array()?).into()),
            _ => return Err(Malformed::WireType),
        };
        Ok((tag >> 3, token))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed::Truncated)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Token<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(Malformed::Truncated)?;
        *rest = tail;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Malformed::LongNumber)
}
