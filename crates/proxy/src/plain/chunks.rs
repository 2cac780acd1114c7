//! Finds the end of a body in chunks, piece by piece, without touching it. Pure.

/// The longest line (a chunk's size, a trailer) that is believed.
const LONGEST_LINE: usize = 8192;

/// Where in the body the next byte stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the digits of a chunk's size; how many there were.
    #[default]
    Size,
    /// Behind them, in what nobody reads.
    Extension,
    SizeEnd,
    Data,
    DataEnd,
    DataEnded,
    /// At the beginning of a trailer, or of the empty line that ends the body.
    Trailer,
    InTrailer,
    TrailerEnd,
    LastEnd,
    Over,
}

#[derive(Debug, Default)]
pub(super) struct Chunks {
    place: Place,
    /// Of the chunk's size that was read, then of its data that is to come.
    left: u64,
    digits: u8,
    line: usize,
}

/// The bytes are no chunks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotChunks;

impl Chunks {
    /// How many of these bytes belong to the body. Once it [is over](Chunks::is_over), none do.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize, NotChunks> {
        let mut at = 0;
        while at < bytes.len() && self.place != Place::Over {
            if self.place == Place::Data {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
                at += length;
                self.left -= length as u64;
                if self.left == 0 {
                    self.place = Place::DataEnd;
                }
                continue;
            }
            self.step(bytes[at])?;
            at += 1;
        }
        Ok(at)
    }

    pub fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    fn step(&mut self, byte: u8) -> Result<(), NotChunks> {
        self.line += 1;
        if self.line > LONGEST_LINE {
            return Err(NotChunks);
        }
        self.place = match (self.place, byte) {
            (Place::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if self.digits < 15 => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.left = self.left << 4 | u64::from(digit);
                self.digits += 1;
                Place::Size
            }
            (Place::Size, b';' | b' ' | b'\t') if self.digits > 0 => Place::Extension,
            (Place::Size, b'\r') if self.digits > 0 => Place::SizeEnd,
            (Place::Extension, b'\r') => Place::SizeEnd,
            (Place::Extension, b'\t' | b' '..=b'~') => Place::Extension,
            (Place::SizeEnd, b'\n') => {
                (self.digits, self.line) = (0, 0);
                if self.left == 0 { Place::Trailer } else { Place::Data }
            }
            (Place::DataEnd, b'\r') => Place::DataEnded,
            (Place::DataEnded, b'\n') => {
                self.line = 0;
                Place::Size
            }
            (Place::Trailer, b'\r') => Place::LastEnd,
            (Place::LastEnd, b'\n') => Place::Over,
            (Place::Trailer | Place::InTrailer, b'\t' | b' '..=b'~' | 0x80..) => Place::InTrailer,
            (Place::InTrailer, b'\r') => Place::TrailerEnd,
            (Place::TrailerEnd, b'\n') => {
                self.line = 0;
                Place::Trailer
            }
            _ => return Err(NotChunks),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end(body: &[u8]) -> Result<Option<usize>, NotChunks> {
        let mut chunks = Chunks::default();
        let length = chunks.take(body)?;
        Ok(chunks.is_over().then_some(length))
    }

    #[test]
    fn where_bodies_end() {
        let check = |body: &str, expected: Result<Option<usize>, NotChunks>| {
            assert_eq!(end(body.as_bytes()), expected, "{body:?}");
        };
        check("0\r\n\r\n", Ok(Some(5)));
        check("5\r\nhello\r\n0\r\n\r\nHTTP/1.1", Ok(Some(15)));
        check("A;x=\"y\"\r\n0123456789\r\n00\r\nx: y\r\n\r\n", Ok(Some(33)));
        check("5\r\nhello\r\n", Ok(None));
        check("5\r\nhel", Ok(None));
        check("", Ok(None));
        for wrong in ["5\n", "\r\n", "x\r\n", "5 hello\n", "-1\r\n", "5\r\nhelloX", "0\r\n\n"] {
            check(wrong, Err(NotChunks));
        }
        check("fffffffffffffffff\r\n", Err(NotChunks));
        check(&format!("1;{}", "x".repeat(9000)), Err(NotChunks));
    }

    proptest! {
        /// However the bytes are cut into pieces, the body ends at the same place.
        #[test]
        fn pieces_do_not_matter(
            sizes in prop::collection::vec(1usize..40, 0..5), cuts in prop::collection::vec(1usize..30, 1..20),
        ) {
            let mut body: Vec<u8> =
                sizes.iter().flat_map(|size| format!("{size:x}\r\n{}\r\n", "\r".repeat(*size)).into_bytes()).collect();
            body.extend(b"0\r\na: b\r\n\r\n");
            let whole = body.len();
            body.extend(b"next");
            let (mut chunks, mut at) = (Chunks::default(), 0);
            for cut in cuts.into_iter().cycle() {
                let piece = &body[at..body.len().min(at + cut)];
                let taken = chunks.take(piece).unwrap();
                at += taken;
                if chunks.is_over() {
                    break;
                }
                prop_assert_eq!(taken, piece.len());
            }
            prop_assert_eq!(at, whole);
        }

        #[test]
        fn nothing_does_harm(body in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = end(&body);
        }
    }
}
