//! The metadata of a master, which is all names of the file system: what a master begins with, and what becomes of
//! metadata that is out of date. None is ever deleted: it goes under another name, `data.old-NUMBER`.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use minik8s_datadir::remove_tree;

use crate::SharedError;
use crate::daemon::at;
use crate::part::Part;

/// What a master begins with that has never had a file.
const EMPTY: &str = "MFSM NEW";
/// What was logged, until all of it is there.
const COPY: &str = "data.new";

/// What a master begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// It never had a file.
    Anew,
    WithMetadata,
}

/// Gives a master what it begins with, if it has nothing.
pub fn prepare(part: &Part) -> Result<Begun, SharedError> {
    let master = part.dir.join("master");
    let data = master.join("data");
    if has_metadata(&data)? {
        return Ok(Begun::WithMetadata);
    }
    // The master was elsewhere, and this node has logged what it did.
    let logged = part.dir.join("metalogger/data");
    if names_in(&logged)?.iter().any(|name| name.starts_with("metadata_ml.mfs")) {
        adopt(&logged, &master)?;
        set_old_aside(part)?;
        return Ok(Begun::WithMetadata);
    }
    // The second is written once in the life of a set-up: a master that has lost its files must not begin anew.
    let begun = master.join("begun");
    if part.dir.join("metalogger").exists() || begun.exists() {
        return Err(SharedError::NoMetadata);
    }
    fs::write(data.join("metadata.mfs"), EMPTY).map_err(at(&data))?;
    fs::write(&begun, "").map_err(at(&begun))?;
    Ok(Begun::Anew)
}

/// Sets aside what nothing may begin with any more: the metadata of a node that is not the master any more, and what a
/// node has logged before it became the master.
pub fn set_old_aside(part: &Part) -> Result<(), SharedError> {
    let (master, logged) = (part.dir.join("master/data"), part.dir.join("metalogger/data"));
    let old = match part.is_master() {
        false => master,
        true if has_metadata(&master)? => logged,
        true => return Ok(()),
    };
    if has_metadata(&old)? { set_aside(&old) } else { Ok(()) }
}

/// Whole or not at all: a master that found a part of it would begin with that.
fn adopt(logged: &Path, master: &Path) -> Result<(), SharedError> {
    let (copy, data) = (master.join(COPY), master.join("data"));
    remove_tree(master, COPY)?;
    DirBuilder::new().mode(0o700).create(&copy).map_err(at(&copy))?;
    for name in names_in(logged)?.iter().filter(|name| name.contains("_ml") && !name.ends_with(".tmp")) {
        let file = copy.join(name);
        fs::copy(logged.join(name), &file).map_err(at(&file))?;
        sync(&file)?;
    }
    sync(&copy)?;
    // The lock of a master that could not start.
    if !names_in(&data)?.is_empty() {
        set_aside(&data)?;
    }
    fs::rename(&copy, &data).map_err(at(&data))?;
    sync(master)
}

fn set_aside(data: &Path) -> Result<(), SharedError> {
    let old = |number: u32| data.with_file_name(format!("data.old-{number}"));
    let mut number = 1;
    while old(number).exists() {
        number += 1;
    }
    fs::rename(data, old(number)).map_err(at(data))?;
    tracing::info!(data = %data.display(), to = %old(number).display(), "set metadata aside that is out of date");
    data.parent().map_or(Ok(()), sync)
}

fn sync(path: &Path) -> Result<(), SharedError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(at(path))
}

fn has_metadata(data: &Path) -> Result<bool, SharedError> {
    Ok(names_in(data)?.iter().any(|name| name.starts_with("metadata") || name.starts_with("changelog")))
}

/// None where there is no directory.
fn names_in(dir: &Path) -> Result<Vec<String>, SharedError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(at(dir))?,
    };
    let names: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
    let names = names.map_err(at(dir))?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::tests::part;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            Machine(tempfile::tempdir().unwrap())
        }

        /// Node `b`, while `master` is the master; with the directories of its servers.
        fn while_master_is(&self, master: &str) -> Part {
            let mut part = part("b", self.0.path().to_str().unwrap());
            part.setup.master.node = master.to_owned();
            let own = if part.is_master() { "master/data" } else { "metalogger/data" };
            fs::create_dir_all(part.dir.join(own)).unwrap();
            part
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn read(&self, path: &str) -> Option<String> {
            fs::read_to_string(self.0.path().join(path)).ok()
        }
    }

    #[test]
    fn first_master_begins_with_nothing_once() {
        let machine = Machine::new();
        let part = machine.while_master_is("b");
        prepare(&part).unwrap();
        assert_eq!(machine.read("master/data/metadata.mfs").as_deref(), Some(EMPTY));
        fs::remove_file(part.dir.join("master/data/metadata.mfs")).unwrap();
        assert!(matches!(prepare(&part), Err(SharedError::NoMetadata)));
    }

    #[test]
    fn master_again_begins_with_what_it_has_logged_since() {
        let machine = Machine::new();
        let own = machine.while_master_is("b");
        prepare(&own).unwrap();
        machine.write("master/data/metadata.mfs", "first term");
        set_old_aside(&own).unwrap();
        prepare(&own).unwrap();
        assert_eq!(machine.read("master/data/metadata.mfs").as_deref(), Some("first term"));

        let other = machine.while_master_is("a");
        set_old_aside(&other).unwrap();
        set_old_aside(&other).unwrap();
        assert_eq!(machine.read("master/data.old-1/metadata.mfs").as_deref(), Some("first term"));
        machine.write("metalogger/data/metadata_ml.mfs.back", "second term");
        machine.write("metalogger/data/changelog_ml.0.mfs", "changes");

        let own = machine.while_master_is("b");
        prepare(&own).unwrap();
        assert_eq!(machine.read("master/data/metadata_ml.mfs.back").as_deref(), Some("second term"));
        assert_eq!(machine.read("master/data/changelog_ml.0.mfs").as_deref(), Some("changes"));
        assert_eq!(machine.read("master/data/metadata.mfs"), None);
        // What was logged then is out of date from now on, too.
        assert_eq!(machine.read("metalogger/data/metadata_ml.mfs.back"), None);
        assert_eq!(
            machine.read("metalogger/data.old-1/metadata_ml.mfs.back").as_deref(),
            Some("second term")
        );

        set_old_aside(&machine.while_master_is("a")).unwrap();
        assert_eq!(machine.read("master/data.old-2/changelog_ml.0.mfs").as_deref(), Some("changes"));
        assert_eq!(machine.read("master/data.old-1/metadata.mfs").as_deref(), Some("first term"));
        // Nothing was logged since: it must not begin with anything older.
        let own = machine.while_master_is("b");
        assert!(matches!(prepare(&own), Err(SharedError::NoMetadata)));
    }

    #[test]
    fn copy_of_the_log_that_was_cut_short_is_made_anew() {
        let machine = Machine::new();
        machine.write("metalogger/data/metadata_ml.mfs.back", "whole");
        machine.write("metalogger/data/metadata_ml.tmp", "being fetched");
        machine.write("master/data.new/metadata_ml.mfs.back", "wh");
        machine.write("master/data.new/changelog_ml.7.mfs", "of another time");
        let own = machine.while_master_is("b");
        prepare(&own).unwrap();
        assert_eq!(names_in(&own.dir.join("master/data")).unwrap(), ["metadata_ml.mfs.back"]);
        assert_eq!(machine.read("master/data/metadata_ml.mfs.back").as_deref(), Some("whole"));
        assert!(!own.dir.join("master/data.new").exists());
    }

    #[test]
    fn log_that_was_never_fetched_whole_makes_no_master() {
        let machine = Machine::new();
        machine.write("metalogger/data/metadata_ml.tmp", "being fetched");
        machine.write("metalogger/data/changelog_ml.0.mfs", "changes");
        let own = machine.while_master_is("b");
        assert!(matches!(prepare(&own), Err(SharedError::NoMetadata)));
        assert_eq!(machine.read("metalogger/data/changelog_ml.0.mfs").as_deref(), Some("changes"));
    }
}
