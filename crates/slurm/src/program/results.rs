//! What is brought back: chosen by name here, then fetched as one tar, each file compared with its size and hash.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Duration;

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::source::hex;
use crate::glob;
use crate::kinds::ResultFile;
use crate::remote::{FETCH, Failure, HASH, LIST, Ssh};

const LIST_LIMIT: Duration = Duration::from_secs(60);
const FETCH_LIMIT: Duration = Duration::from_secs(1800);

/// Files that arrived, by name, each in a file of its own; and what was asked for and matches nothing.
pub struct Fetched {
    pub files: Vec<(ResultFile, File)>,
    pub unmatched: Vec<String>,
}

/// Fetches every file that one of the patterns matches. `outputs` are fetched if they are there, and not missed if not.
pub async fn fetch(ssh: &Ssh, dir: &str, patterns: &[String], outputs: &[String]) -> anyhow::Result<Fetched> {
    let listed = listed(&ssh.run(LIST, &[dir], LIST_LIMIT).await?);
    let wanted = |name: &str| {
        outputs.iter().any(|output| output == name)
            || patterns.iter().any(|pattern| glob::matches(pattern, name))
    };
    let unmatched = patterns.iter().filter(|pattern| !listed.keys().any(|name| glob::matches(pattern, name)));
    let unmatched = unmatched.cloned().collect();
    let chosen: Vec<(String, u64)> = listed.into_iter().filter(|(name, _)| wanted(name)).collect();
    if chosen.is_empty() {
        return Ok(Fetched { files: Vec::new(), unmatched });
    }
    let names: Vec<u8> = chosen.iter().flat_map(|(name, _)| format!("./{name}\0").into_bytes()).collect();
    let hashes = hashes(&ssh.run_with(HASH, &[dir], input(&names)?, FETCH_LIMIT).await?);
    let mut arrived = transfer(ssh, dir, &names).await?;
    let mut files = Vec::new();
    for (name, size) in chosen {
        let hash = hashes.get(&name).cloned().unwrap_or_default();
        let (problem, file) = match arrived.remove(&name) {
            Some((found, file)) if found == hash => (None, file),
            Some((_, file)) => (Some("its hash differs from that on the cluster".to_owned()), file),
            None => (Some("it did not arrive".to_owned()), tempfile::tempfile()?),
        };
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        files.push((ResultFile { name, size, sha256: hash, problem, parts: Vec::new() }, file));
    }
    Ok(Fetched { files, unmatched })
}

/// Hash and content of every file that arrives.
async fn transfer(ssh: &Ssh, dir: &str, names: &[u8]) -> anyhow::Result<BTreeMap<String, (String, File)>> {
    let mut archive = tempfile::tempfile()?;
    match ssh.run_into(FETCH, &[dir], input(names)?, archive.try_clone()?, FETCH_LIMIT).await {
        // tar's word for "a file changed or vanished meanwhile": the hashes will tell.
        Err(Failure::Ended { code: 1, .. }) | Ok(()) => {}
        Err(failure) => return Err(failure.into()),
    }
    archive.seek(SeekFrom::Start(0))?;
    let mut arrived = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry.context("what arrived is no whole archive")?;
        let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        let (mut file, mut digest) = (tempfile::tempfile()?, Sha256::new());
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = entry.read(&mut buffer).context("what arrived is no whole archive")?;
            if read == 0 {
                break;
            }
            digest.update(&buffer[..read]);
            file.write_all(&buffer[..read])?;
        }
        arrived.insert(name, (hex(&digest.finalize()), file));
    }
    Ok(arrived)
}

/// A file to be read from its beginning.
pub fn input(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// `SIZE\tNAME`, separated by NUL. Names that are no text cannot be asked for.
fn listed(bytes: &[u8]) -> BTreeMap<String, u64> {
    let entries = bytes.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    entries
        .filter_map(|entry| {
            entry.split_once('\t').and_then(|(size, name)| Some((name.to_owned(), size.parse().ok()?)))
        })
        .collect()
}

/// `HASH  NAME`, separated by NUL.
fn hashes(bytes: &[u8]) -> BTreeMap<String, String> {
    let entries = bytes.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let pairs = entries.filter_map(|entry| entry.split_once("  "));
    pairs.map(|(hash, name)| (name.trim_start_matches("./").to_owned(), hash.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_by_nul() {
        let listed = listed(b"3\ta.txt\x000\tsub/new\nline\0x\ty\0\xff\t\0");
        assert_eq!(listed, BTreeMap::from([("a.txt".to_owned(), 3), ("sub/new\nline".to_owned(), 0)]));
        let hashes = hashes(b"aa  ./a b\0bb  ./-x\0");
        assert_eq!(
            hashes,
            BTreeMap::from([("a b".to_owned(), "aa".to_owned()), ("-x".to_owned(), "bb".to_owned())])
        );
    }
}
