//! Writes a set of files so that readers see either all old or all new ones.
//!
//! The files lie in a directory of their own, `..data` is a link to it, and what users see are links through
//! `..data`. An update makes a new directory and moves the link.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use minik8s_datadir::remove_tree;
use nix::unistd::{Gid, fchown};

use super::payload::Payload;

pub const LINK: &str = "..data";
const NEW_LINK: &str = "..data_tmp";

/// Brings a volume's directory up to date; false if it was.
pub fn write(dir: &Path, payload: &Payload, group: Option<u32>) -> io::Result<bool> {
    fs::create_dir_all(dir)?;
    let old = fs::read_link(dir.join(LINK)).ok();
    if old.is_some() && is_current(&dir.join(LINK), payload, group) {
        // An agent that died after the swap did not come to the links.
        link_all(dir, payload)?;
        return Ok(false);
    }
    let name = format!("..{}", uuid::Uuid::new_v4().simple());
    let new = dir.join(&name);
    let written = write_files(&new, payload, group).and_then(|()| {
        let _ = fs::remove_file(dir.join(NEW_LINK));
        symlink(&name, dir.join(NEW_LINK))?;
        fs::rename(dir.join(NEW_LINK), dir.join(LINK))
    });
    if let Err(error) = written {
        // On a full disk every attempt would leave a little more.
        let _ = remove_tree(dir, &name);
        return Err(error);
    }
    link_all(dir, payload)?;
    remove_others(dir, &name)?;
    Ok(true)
}

/// Removes what earlier versions left, also those that were interrupted.
fn remove_others(dir: &Path, current: &str) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("..") && name != current && name != LINK && entry.file_type()?.is_dir() {
            remove_tree(dir, entry.file_name()).map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// Makes the directory with all its files.
fn write_files(dir: &Path, payload: &Payload, group: Option<u32>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(dir)?;
    for (path, file) in payload {
        let target = dir.join(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        // Closed until it is whole and whose it shall be: there is no moment in which others may read it.
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&target)?;
        new.write_all(&file.content)?;
        if let Some(group) = group {
            fchown(&new, None, Some(Gid::from_raw(group)))?;
        }
        new.set_permissions(fs::Permissions::from_mode(mode(file.mode, group)))?;
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
}

/// The pod's group may read what it owns.
fn mode(mode: u32, group: Option<u32>) -> u32 {
    if group.is_some() { mode | 0o440 } else { mode }
}

/// Links what users see, and removes links to what is no more.
fn link_all(dir: &Path, payload: &Payload) -> io::Result<()> {
    let visible: BTreeSet<&str> = payload.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &visible {
        let link = dir.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(LINK).join(name), link)?;
        }
    }
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !visible.contains(name.as_ref()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_current(dir: &Path, payload: &Payload, group: Option<u32>) -> bool {
    let same = |(path, file): (&String, &super::payload::File)| {
        let path = dir.join(path);
        let permissions = fs::metadata(&path).map(|m| m.permissions().mode() & 0o7777);
        permissions.is_ok_and(|p| p == mode(file.mode, group))
            && fs::read(&path).is_ok_and(|c| c == file.content)
    };
    payload.iter().all(same) && count_files(dir) == payload.len()
}

fn count_files(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let count = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => count_files(&entry.path()),
        _ => 1,
    };
    entries.flatten().map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::super::payload::File;
    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |text: &str| File { content: text.into(), mode: 0o644 };
        files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    fn visible(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with("..")).collect();
        names.sort();
        names
    }

    #[test]
    fn updates_swap_everything_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(write(dir, &payload(&[("a", "1"), ("sub/b", "2")]), None).unwrap());
        assert_eq!(visible(dir), ["a", "sub"]);
        assert_eq!(fs::read_to_string(dir.join("sub/b")).unwrap(), "2");
        assert!(!write(dir, &payload(&[("a", "1"), ("sub/b", "2")]), None).unwrap(), "nothing changed");
        assert!(write(dir, &payload(&[("a", "new"), ("c", "3")]), None).unwrap());
        assert_eq!(visible(dir), ["a", "c"]);
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "new");
        // The link and one directory behind it.
        assert_eq!(fs::read_dir(dir).unwrap().count(), 4);
        assert!(write(dir, &payload(&[]), None).unwrap());
        assert_eq!(visible(dir), Vec::<String>::new());
    }

    /// Somebody looks all the time, while files are written that are large enough to be seen unfinished.
    #[test]
    fn closed_file_is_never_open_while_it_is_written() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("volume");
        fs::create_dir(&dir).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for fill in 0..20 {
                    let file = File { content: vec![fill; 4 << 20], mode: 0o400 };
                    write(&dir, &[("key".to_owned(), file)].into(), None).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) {
                for version in fs::read_dir(&dir).unwrap().flatten() {
                    let Ok(metadata) = fs::symlink_metadata(version.path().join("key")) else { continue };
                    assert_eq!(metadata.permissions().mode() & 0o177, 0, "others may read it");
                    seen += 1;
                }
            }
            assert!(seen > 0, "nothing was seen");
        });
    }

    #[test]
    fn a_write_that_was_cut_short_is_made_good() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        symlink("..nowhere", dir.join(NEW_LINK)).unwrap();
        fs::create_dir(dir.join("..half")).unwrap();
        assert!(write(dir, &payload(&[("a", "1")]), None).unwrap());
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "1");
    }

    #[test]
    fn what_an_interrupted_update_left_is_put_right() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(dir, &payload(&[("a", "1")]), None).unwrap();
        fs::remove_file(dir.join("a")).unwrap();
        write(dir, &payload(&[("a", "1")]), None).unwrap();
        assert_eq!(visible(dir), ["a"], "the agent died before it made the link");
        fs::create_dir(dir.join("..half")).unwrap();
        fs::write(dir.join("..half/a"), "2").unwrap();
        write(dir, &payload(&[("a", "3")]), None).unwrap();
        assert_eq!(fs::read_to_string(dir.join("a")).unwrap(), "3");
        let hidden = fs::read_dir(dir).unwrap().count() - 1;
        assert_eq!(hidden, 2, "the link and what it leads to");
    }
}
