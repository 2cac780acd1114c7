//! How much of an answer's body is to come.

use std::io::{self, Write};

use super::answer::Body;
use super::chunks::{Chunks, NotChunks};

pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

pub(super) enum Rest {
    Length(u64),
    Chunks(Chunks),
    UntilClose,
}

impl Rest {
    pub fn of(body: Body) -> Self {
        match body {
            Body::None => Rest::Length(0),
            Body::Length(length) => Rest::Length(length),
            Body::Chunks => Rest::Chunks(Chunks::default()),
            Body::UntilClose => Rest::UntilClose,
        }
    }

    /// How many of these bytes are the body's.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Rest::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                Ok(taken)
            }
            Rest::Chunks(chunks) => chunks.take(bytes).map_err(|NotChunks| io::ErrorKind::InvalidData.into()),
            Rest::UntilClose => Ok(bytes.len()),
        }
    }

    pub fn is_over(&self) -> bool {
        match self {
            Rest::Length(left) => *left == 0,
            Rest::Chunks(chunks) => chunks.is_over(),
            Rest::UntilClose => false,
        }
    }
}

/// An empty one would be the last.
pub(super) fn write_chunk(out: &mut Vec<u8>, piece: &[u8]) {
    if piece.is_empty() {
        return;
    }
    let _ = write!(out, "{:x}\r\n", piece.len());
    out.extend_from_slice(piece);
    out.extend_from_slice(b"\r\n");
}
