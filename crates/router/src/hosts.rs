//! A block of our own in the node's hosts file, so that the node itself resolves the names of DNS objects.
//!
//! Everything outside the block stays as it is, byte by byte. The file is written in place: in containers it is
//! often a mount of its own, which cannot be replaced.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct HostsFile {
    path: PathBuf,
    instance: String,
}

impl HostsFile {
    pub fn new(path: &Path, instance: &str) -> Self {
        HostsFile { path: path.to_owned(), instance: instance.to_owned() }
    }

    /// These names lead to that address, and no others of ours. Writes only what changes.
    pub fn write(&self, names: &BTreeSet<String>, address: IpAddr) -> io::Result<()> {
        let old = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let new = with_block(&old, &self.instance, names, address);
        if new == old { Ok(()) } else { fs::write(&self.path, new) }
    }
}

/// Removes the block of a stopped agent; where there is none it does nothing.
pub fn tear_down(path: &Path, instance: &str) {
    let file = HostsFile::new(path, instance);
    if let Err(error) = file.write(&BTreeSet::new(), IpAddr::from([0, 0, 0, 0])) {
        tracing::warn!(%error, "cannot remove minik8s' names from {}", path.display());
    }
}

fn with_block(old: &str, instance: &str, names: &BTreeSet<String>, address: IpAddr) -> String {
    let (begin, end) = (format!("# BEGIN minik8s-{instance}"), format!("# END minik8s-{instance}"));
    let mut new = String::with_capacity(old.len());
    let mut inside = false;
    for line in old.split_inclusive('\n') {
        match line.trim_end() {
            text if text == begin => inside = true,
            text if text == end => inside = false,
            _ if !inside => new.push_str(line),
            _ => {}
        }
    }
    if names.is_empty() {
        return new;
    }
    if !new.is_empty() && !new.ends_with('\n') {
        new.push('\n');
    }
    new.push_str(&format!("{begin}\n"));
    for name in names {
        new.push_str(&format!("{address} {name}\n"));
    }
    new.push_str(&format!("{end}\n"));
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_block_changes() {
        #[track_caller]
        fn check(old: &str, names: &[&str], expected: &str) {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            let new = with_block(old, "x", &names, [10, 0, 0, 1].into());
            assert_eq!(new, expected);
            assert_eq!(with_block(&new, "x", &names, [10, 0, 0, 1].into()), new, "again");
        }
        let block = "# BEGIN minik8s-x\n10.0.0.1 a.b\n# END minik8s-x\n";
        let other = "# BEGIN minik8s-y\n10.0.0.2 c\n# END minik8s-y\n";
        check("", &[], "");
        check("", &["a.b"], block);
        check("127.0.0.1 localhost", &["a.b"], &format!("127.0.0.1 localhost\n{block}"));
        check(&format!("h\n{block}{other}"), &["a.b"], &format!("h\n{other}{block}"));
        check(&format!("h\n{block}{other}"), &[], &format!("h\n{other}"));
        check(&block.replace("a.b", "old"), &["a.b"], block);
        check("h\n# BEGIN minik8s-x\n1.1.1.1 cut off", &["a.b"], &format!("h\n{block}"));
    }

    #[test]
    fn a_file_comes_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        HostsFile::new(&path, "x").write(&["a".to_owned()].into(), [10, 0, 0, 1].into()).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("10.0.0.1 a\n"));
        tear_down(&path, "x");
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }
}
