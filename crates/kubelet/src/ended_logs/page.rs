//! What is kept, and its lines.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use jiff::Timestamp;

use super::retention::kept;
use super::{ABOUT, EndedPod};
use crate::log_file::Line;

const LONGEST_LINE: u64 = 1 << 20;

/// Every pod whose logs are kept. Blocks.
pub fn list(folder: &Path) -> Vec<EndedPod> {
    let folders = kept(folder).unwrap_or_default();
    let about = |name: String| serde_json::from_slice(&fs::read(folder.join(name).join(ABOUT)).ok()?).ok();
    folders.into_iter().filter_map(|one| about(one.name)).collect()
}

/// The lines of a container, oldest first, each with its time; false from `write` ends it. Blocks.
///
/// Names are compared with those that are kept and never become a path of their own.
pub fn read(
    folder: &Path,
    (namespace, name, uid, container): (&str, &str, &str, &str),
    since: Option<Timestamp>,
    mut write: impl FnMut(Vec<u8>) -> bool,
) -> io::Result<bool> {
    let wanted = format!("{namespace}_{name}_{uid}");
    let Some(found) = kept(folder)?.into_iter().find(|one| one.name == wanted) else { return Ok(false) };
    let mut files = files(&folder.join(found.name), container)?;
    files.sort();
    for (_, _, path) in &files {
        let mut reader = BufReader::new(GzDecoder::new(File::open(path)?));
        let mut line = Vec::new();
        loop {
            line.clear();
            // A file that was cut is read as far as it goes.
            let read = Read::by_ref(&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                break;
            }
            let Some(parsed) = Line::parse(&line) else { continue };
            if since.is_some_and(|since| parsed.timestamp().is_some_and(|time| time < since)) {
                continue;
            }
            let shown = [parsed.time.as_bytes(), b" ", parsed.text, b"\n"].concat();
            if !write(shown) {
                return Ok(true);
            }
        }
    }
    Ok(!files.is_empty())
}

/// A container's files by attempt; those that were rotated away before the one that was written last.
pub fn files(folder: &Path, container: &str) -> io::Result<Vec<(u32, String, PathBuf)>> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder)?.flatten() {
        let Ok(name) = file.file_name().into_string() else { continue };
        let Some(rest) = name.strip_prefix(container).and_then(|rest| rest.strip_prefix('.')) else {
            continue;
        };
        let Some((attempt, rotated)) = rest.strip_suffix(".gz").and_then(|rest| rest.split_once(".log"))
        else {
            continue;
        };
        let Ok(attempt) = attempt.parse() else { continue };
        // Behind every date.
        let order = if rotated.is_empty() { "~".to_owned() } else { rotated.to_owned() };
        files.push((attempt, order, file.path()));
    }
    Ok(files)
}
