//! From what a build hands over to a layer of an image, as it comes.
//!
//! A build sends, for each file, a line of JSON (`path`, `size`, `run`) and the bytes, and `{"end": true}` last. Whoever
//! speaks may be hostile: only plain files below the layer's own folder come out, with fixed owners, times and modes, within
//! bounds, and nothing at all if the end is missing. Pure.

use std::collections::HashSet;
use std::io;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use thiserror::Error;

const MOST_FILES: usize = 100_000;
const LARGEST_WHOLE: u64 = 512 << 20;
const LONGEST_HEAD: usize = 8 << 10;
const LONGEST_PATH: usize = 1000;
const BLOCK: u64 = 512;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum LayerError {
    #[error("what the build hands over ends too early")]
    CutOff,
    #[error("what the build hands over cannot be read")]
    Broken,
    #[error("the path {0:?} is not one of a plain file, or there are two of it")]
    Path(String),
    #[error("the packages have more than {MOST_FILES} files")]
    TooMany,
    #[error("the packages have more than {} MiB: use an image of your own for them", LARGEST_WHOLE >> 20)]
    TooLarge,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    path: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    run: bool,
    #[serde(default)]
    end: bool,
}

/// A layer in the making.
pub struct Layer {
    tar: tar::Builder<Vec<u8>>,
    hash: Sha256,
    size: u64,
    /// The beginning of a line whose end has not come.
    head: Vec<u8>,
    /// Bytes of a file that are still to come, and of its padding.
    rest: u64,
    padding: usize,
    whole: u64,
    files: HashSet<String>,
    folders: HashSet<String>,
    has_ended: bool,
}

/// A layer by its digest.
#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    /// The bytes that were not taken yet.
    pub last: Vec<u8>,
    pub digest: String,
    pub size: u64,
}

impl Layer {
    pub fn new() -> Self {
        Layer {
            tar: tar::Builder::new(Vec::new()),
            hash: Sha256::new(),
            size: 0,
            head: Vec::new(),
            rest: 0,
            padding: 0,
            whole: 0,
            files: HashSet::new(),
            folders: HashSet::new(),
            has_ended: false,
        }
    }

    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), LayerError> {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let (now, later) =
                    bytes.split_at(usize::try_from(self.rest).unwrap_or(usize::MAX).min(bytes.len()));
                self.tar.get_mut().extend_from_slice(now);
                self.rest -= now.len() as u64;
                bytes = later;
                self.pad();
                continue;
            }
            if self.has_ended {
                return Err(LayerError::Broken);
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (now, later) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.head.extend_from_slice(now);
            bytes = later;
            if self.head.len() > LONGEST_HEAD {
                return Err(LayerError::Broken);
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.head);
                self.begin(serde_json::from_slice(&line).map_err(|_| LayerError::Broken)?)?;
            }
        }
        Ok(())
    }

    /// The bytes of the layer since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(self.tar.get_mut());
        self.hash.update(&bytes);
        self.size += bytes.len() as u64;
        bytes
    }

    pub fn finish(mut self) -> Result<Finished, LayerError> {
        if !self.has_ended || self.rest > 0 {
            return Err(LayerError::CutOff);
        }
        self.tar.finish().map_err(|_| LayerError::Broken)?;
        let last = self.take();
        let hex: String = self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Finished { last, digest: format!("sha256:{hex}"), size: self.size })
    }

    fn begin(&mut self, head: Head) -> Result<(), LayerError> {
        if head.end {
            self.has_ended = true;
            return Ok(());
        }
        let bad = || LayerError::Path(head.path.chars().take(200).collect());
        if !is_plain(&head.path) || self.folders.contains(&head.path) || !self.files.insert(head.path.clone())
        {
            return Err(bad());
        }
        self.whole = self.whole.saturating_add(head.size);
        if self.files.len() > MOST_FILES {
            return Err(LayerError::TooMany);
        }
        if self.whole > LARGEST_WHOLE {
            return Err(LayerError::TooLarge);
        }
        for (at, _) in head.path.match_indices('/') {
            let folder = &head.path[..at];
            if self.files.contains(folder) {
                return Err(bad());
            }
            if self.folders.insert(folder.to_owned()) {
                self.entry(tar::EntryType::Directory, folder, 0o755, 0)?;
            }
        }
        let mode = if head.run { 0o755 } else { 0o644 };
        self.entry(tar::EntryType::Regular, &head.path, mode, head.size)?;
        self.rest = head.size;
        self.padding = usize::try_from(head.size.next_multiple_of(BLOCK) - head.size).unwrap_or(0);
        self.pad();
        Ok(())
    }

    /// The head of an entry; its content follows as it comes.
    fn entry(&mut self, kind: tar::EntryType, path: &str, mode: u32, size: u64) -> Result<(), LayerError> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        self.tar.append_data(&mut header, path, io::empty()).map_err(|_| LayerError::Path(path.to_owned()))
    }

    fn pad(&mut self) {
        if self.rest == 0 {
            let zeros = std::mem::take(&mut self.padding);
            self.tar.get_mut().extend(std::iter::repeat_n(0, zeros));
        }
    }
}

/// A relative path of ordinary names. Layers say by names that begin with `.wh.` what they remove.
fn is_plain(path: &str) -> bool {
    let is_name =
        |name: &str| !matches!(name, "" | "." | "..") && !name.starts_with(".wh.") && name.len() <= 255;
    path.len() <= LONGEST_PATH && !path.chars().any(char::is_control) && path.split('/').all(is_name)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn made(sent: &[u8], step: usize) -> Result<(Vec<u8>, Finished), LayerError> {
        let mut layer = Layer::new();
        let mut bytes = Vec::new();
        for piece in sent.chunks(step) {
            layer.feed(piece)?;
            bytes.extend(layer.take());
        }
        let finished = layer.finish()?;
        bytes.extend(&finished.last);
        Ok((bytes, finished))
    }

    fn sent(files: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, content) in files {
            let head = serde_json::json!({"path": path, "size": content.len(), "run": path.ends_with(".sh")});
            bytes.extend(format!("{head}\n{content}").into_bytes());
        }
        bytes.extend(b"{\"end\": true}\n");
        bytes
    }

    #[test]
    fn files_become_a_layer_however_they_come() {
        let long = format!("{}/x.py", "folder/".repeat(40));
        let text = "x".repeat(700);
        let files =
            [("a/b.py", "one"), ("a/run.sh", &text), ("empty", ""), (long.trim_start_matches('/'), "two")];
        let files = files.map(|(path, content)| (path.replace("//", "/"), content));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
        let sent = sent(&files);
        let (bytes, finished) = made(&sent, 1 << 20).unwrap();
        assert_eq!(finished.size, bytes.len() as u64);
        for step in [1, 7, 512] {
            let (again, same) = made(&sent, step).unwrap();
            assert_eq!((&again, &same.digest), (&bytes, &finished.digest), "{step}");
        }
        let mut found = Vec::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.header().entry_type().is_file() {
                let path = entry.path().unwrap().to_str().unwrap().to_owned();
                let (mode, mut content) = (entry.header().mode().unwrap(), String::new());
                entry.read_to_string(&mut content).unwrap();
                assert_eq!(mode, if path.ends_with(".sh") { 0o755 } else { 0o644 });
                found.push((path, content));
            }
        }
        let expected: Vec<_> =
            files.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_no_plain_file_is_refused() {
        for bad in
            ["../x", "/etc/passwd", "a/../../x", "a//b", "", "a/.wh.b", ".wh..wh..opq", "a\u{0}b", "a/"]
        {
            assert!(matches!(made(&sent(&[(bad, "x")]), 100), Err(LayerError::Path(_))), "{bad:?}");
        }
        for twice in [[("a", "1"), ("a", "2")], [("a", "1"), ("a/b", "2")], [("a/b", "1"), ("a", "2")]] {
            assert!(matches!(made(&sent(&twice), 100), Err(LayerError::Path(_))), "{twice:?}");
        }
        let large = format!("{{\"path\": \"a\", \"size\": {}}}\n", LARGEST_WHOLE + 1);
        assert_eq!(made(large.as_bytes(), 100).unwrap_err(), LayerError::TooLarge);
        assert_eq!(made(&vec![b' '; LONGEST_HEAD + 1], 4096).unwrap_err(), LayerError::Broken);
        let whole = sent(&[("a", "content")]);
        for length in 0..whole.len() - 1 {
            assert_eq!(made(&whole[..length], 5).unwrap_err(), LayerError::CutOff, "{length}");
        }
        assert_eq!(made(&[whole, b"more".to_vec()].concat(), 9).unwrap_err(), LayerError::Broken);
    }

    #[test]
    fn fuzz_layer() {
        let whole = sent(&[("a/b.py", "one"), ("c", "two")]);
        let inputs: [&[u8]; 2] =
            [&whole, b"{\"path\": \"a\", \"size\": 3, \"run\": true}\nabc{\"end\": true}\n"];
        let words = &["{", "}", "\n", "\"path\"", "\"size\"", "\"end\"", "..", "/", "18446744073709551615"];
        minik8s_fuzz::fuzz("layer", 1, minik8s_fuzz::Corpus { inputs: &inputs, words }, |input| {
            if let Ok((bytes, _)) = made(input, 11) {
                for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
                    let path = entry.unwrap().path().unwrap().into_owned();
                    let leads_out = path.components().any(|part| part == std::path::Component::ParentDir);
                    assert!(path.is_relative() && !leads_out, "{path:?}");
                }
            }
        });
    }
}
