//! A store as one file. Pure but for [`stream`], which reads a store while others write to it.
//!
//! | Part | |
//! |---|---|
//! | `minik8s-backup 1\n` | which format this is |
//! | records | one byte that says what it is, the lengths of two fields (32 bits each, little endian), the fields |
//! | record `H` | the revision (64 bits), and a note for people: who wrote it and when |
//! | records `E` | a key and its value |
//! | record `Z` | the number of entries (64 bits), and the SHA-256 of all that stands before |
//!
//! A file that was cut short or damaged is found out before anything of it is used.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use sha2::{Digest, Sha256};

use crate::contents::Reader;
use crate::{Contents, Result, Store};

const MAGIC: &[u8] = b"minik8s-backup ";
const FORMAT: &[u8] = b"1\n";
const HEAD: u8 = b'H';
const ENTRY: u8 = b'E';
const END: u8 = b'Z';

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BackupError {
    #[error("it is not a backup of minik8s")]
    Foreign,
    #[error("its format is {0:?}, this version reads \"1\"; use the version of minik8s that wrote it")]
    Format(String),
    #[error("it is cut short: its end is missing")]
    Truncated,
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

/// What a file says about itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Backup {
    pub note: String,
    pub contents: Contents,
}

/// Writes the parts of a file, one after the other.
pub struct Encoder {
    hash: Sha256,
    entries: u64,
}

impl Encoder {
    pub fn begin(revision: u64, note: &str) -> (Encoder, Bytes) {
        let mut out = BytesMut::new();
        out.put_slice(MAGIC);
        out.put_slice(FORMAT);
        record(&mut out, HEAD, &revision.to_le_bytes(), note.as_bytes());
        let mut encoder = Encoder { hash: Sha256::new(), entries: 0 };
        let bytes = encoder.counted(out);
        (encoder, bytes)
    }

    pub fn entries(&mut self, entries: &[(String, Bytes)]) -> Bytes {
        let mut out = BytesMut::new();
        for (key, value) in entries {
            record(&mut out, ENTRY, key.as_bytes(), value);
        }
        self.entries += entries.len() as u64;
        self.counted(out)
    }

    pub fn end(self) -> Bytes {
        let mut out = BytesMut::new();
        record(&mut out, END, &self.entries.to_le_bytes(), &self.hash.finalize());
        out.freeze()
    }

    fn counted(&mut self, out: BytesMut) -> Bytes {
        self.hash.update(&out);
        out.freeze()
    }
}

pub fn encode(contents: &Contents, note: &str) -> Vec<u8> {
    let (mut encoder, begin) = Encoder::begin(contents.revision, note);
    let entries = encoder.entries(&contents.entries);
    [begin, entries, encoder.end()].concat()
}

/// The store as it is now, as the bytes of a file. A stream that fails ends without the end of the file.
pub fn stream(store: Arc<dyn Store>, note: String) -> impl Stream<Item = Result<Bytes>> + Send {
    enum State {
        Begin(String),
        Middle(Reader, Encoder),
        Done,
    }
    futures::stream::try_unfold(State::Begin(note), move |state| {
        let store = store.clone();
        async move {
            match state {
                State::Begin(note) => {
                    let reader = Reader::new(&*store).await?;
                    let (encoder, bytes) = Encoder::begin(reader.revision, &note);
                    Ok(Some((bytes, State::Middle(reader, encoder))))
                }
                State::Middle(mut reader, mut encoder) => match reader.next(&*store).await? {
                    Some(entries) => {
                        let bytes = encoder.entries(&entries);
                        Ok(Some((bytes, State::Middle(reader, encoder))))
                    }
                    None => Ok(Some((encoder.end(), State::Done))),
                },
                State::Done => Ok(None),
            }
        }
    })
}

/// The whole file, or what is wrong with it.
pub fn decode(file: &Bytes) -> Result<Backup, BackupError> {
    let begins = |with: &[u8]| file.len() >= with.len() && &file[..with.len()] == with;
    if !begins(MAGIC) {
        return Err(if MAGIC.starts_with(file) { BackupError::Truncated } else { BackupError::Foreign });
    }
    let mut rest = Records { file, at: MAGIC.len() + FORMAT.len() };
    match file.get(MAGIC.len()..rest.at) {
        None => return Err(BackupError::Truncated),
        Some(FORMAT) => {}
        Some(other) => {
            return Err(BackupError::Format(String::from_utf8_lossy(other).trim().to_owned()));
        }
    }
    let (HEAD, revision, note) = rest.next()? else {
        return Err(BackupError::Damaged("it does not begin with its head"));
    };
    let revision = number(&revision)?;
    let note = String::from_utf8_lossy(&note).into_owned();
    let mut entries: Vec<(String, Bytes)> = Vec::new();
    loop {
        let before = rest.at;
        match rest.next()? {
            (ENTRY, key, value) => {
                let key = String::from_utf8(key.to_vec());
                let key = key.map_err(|_| BackupError::Damaged("a key is not text"))?;
                entries.push((key, value));
            }
            (END, count, hash) => {
                if Sha256::digest(&file[..before])[..] != hash[..] {
                    return Err(BackupError::Damaged("its checksum does not match"));
                }
                if number(&count)? != entries.len() as u64 || rest.at != file.len() {
                    return Err(BackupError::Damaged("it holds more or less than it says"));
                }
                return Ok(Backup { note, contents: Contents { revision, entries } });
            }
            _ => return Err(BackupError::Damaged("a part of it is of no known kind")),
        }
    }
}

struct Records<'a> {
    file: &'a Bytes,
    at: usize,
}

impl Records<'_> {
    fn next(&mut self) -> Result<(u8, Bytes, Bytes), BackupError> {
        let kind = self.take(1)?[0];
        let (first, second) = (self.length()?, self.length()?);
        Ok((kind, self.take(first)?, self.take(second)?))
    }

    fn length(&mut self) -> Result<usize, BackupError> {
        let bytes = self.take(4)?;
        let length = <[u8; 4]>::try_from(&bytes[..]).map_err(|_| BackupError::Truncated)?;
        Ok(u32::from_le_bytes(length) as usize)
    }

    fn take(&mut self, length: usize) -> Result<Bytes, BackupError> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.file.len());
        let end = end.ok_or(BackupError::Truncated)?;
        let taken = self.file.slice(self.at..end);
        self.at = end;
        Ok(taken)
    }
}

fn number(bytes: &[u8]) -> Result<u64, BackupError> {
    let bytes =
        <[u8; 8]>::try_from(bytes).map_err(|_| BackupError::Damaged("a number is too long or short"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Values are requests' bodies and keys are names: both far below 4 GiB.
fn record(out: &mut BytesMut, kind: u8, first: &[u8], second: &[u8]) {
    out.reserve(9 + first.len() + second.len());
    out.put_u8(kind);
    out.put_u32_le(u32::try_from(first.len()).unwrap_or(u32::MAX));
    out.put_u32_le(u32::try_from(second.len()).unwrap_or(u32::MAX));
    out.put_slice(first);
    out.put_slice(second);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Contents {
        let entries = [("/a", "1"), ("/b", ""), ("/é/\n", "\u{0}x")];
        let entries = entries.map(|(key, value)| (key.to_owned(), Bytes::from(value))).into();
        Contents { revision: 77, entries }
    }

    fn check(file: Vec<u8>, expected: &BackupError) {
        assert_eq!(decode(&file.into()).as_ref().err(), Some(expected));
    }

    #[test]
    fn a_file_is_read_back() {
        for contents in [sample(), Contents { revision: 0, entries: Vec::new() }] {
            let file = encode(&contents, "by a test");
            assert_eq!(decode(&file.into()), Ok(Backup { note: "by a test".to_owned(), contents }));
        }
    }

    #[test]
    fn what_is_no_backup_says_so() {
        check(b"PK\x03\x04 something else".to_vec(), &BackupError::Foreign);
        check(b"minik8s-backup 9\nwhatever".to_vec(), &BackupError::Format("9".to_owned()));
        let file = encode(&sample(), "");
        check([&file[..], b"x"].concat(), &BackupError::Damaged("it holds more or less than it says"));
    }

    #[test]
    fn every_shorter_file_is_cut_short() {
        let file = encode(&sample(), "note");
        for length in 0..file.len() {
            check(file[..length].to_vec(), &BackupError::Truncated);
        }
    }

    proptest! {
        #[test]
        fn one_changed_bit_is_found(position in 0usize..200, bit in 0u8..8) {
            let mut file = encode(&sample(), "note");
            let position = position % file.len();
            file[position] ^= 1 << bit;
            prop_assert!(decode(&file.into()).is_err());
        }
    }
}
