//! The processes between containerd and its containers, as `/proc` shows them.
//!
//! A shim's command line names the containerd that it belongs to by its socket: shims of other agents on the host
//! are never taken for ours.

use std::collections::BTreeMap;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shim {
    pub pid: i32,
    /// The sandbox that it was started for.
    pub id: String,
}

/// All shims of the containerd on that socket.
pub fn shims(socket: &Path) -> Vec<Shim> {
    let found = pids().filter_map(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some(Shim { pid, id: shim_id(&line, socket)? })
    });
    found.collect()
}

/// The id on a command line like `containerd-shim-runc-v2 -namespace k8s.io -id ID -address SOCKET`.
fn shim_id(line: &[u8], socket: &Path) -> Option<String> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let program = String::from_utf8_lossy(words.first()?).into_owned();
    let after = |flag: &str| {
        let at = words.iter().position(|word| *word == flag.as_bytes())?;
        words.get(at + 1).copied()
    };
    if !program.contains("containerd-shim") || after("-address")? != socket.as_os_str().as_encoded_bytes() {
        return None;
    }
    Some(String::from_utf8_lossy(after("-id").unwrap_or_default()).into_owned())
}

/// Ends a process and all that descends from it: the containers of a shim go with it.
pub fn kill_tree(root: i32) {
    let parents: BTreeMap<i32, i32> = pids().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let descends = |pid: i32| {
        let mut ancestors = std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
        // A chain longer than all processes there are would be a circle made of reused numbers.
        ancestors.by_ref().take(parents.len() + 1).any(|pid| pid == root)
    };
    // The root first, so that it does not act upon the end of its children.
    let below = parents.keys().copied().filter(|pid| *pid != root && descends(*pid));
    for pid in std::iter::once(root).chain(below) {
        // It may have ended by itself meanwhile.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command in parentheses may hold anything; the state and the parent follow.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn command_lines() {
        let check = |line: &[&str], want: Option<&str>| {
            let line = line.join("\0") + "\0";
            let got = shim_id(line.as_bytes(), Path::new("/data/containerd.sock"));
            assert_eq!(got.as_deref(), want, "{line:?}");
        };
        let shim = "/usr/bin/containerd-shim-runc-v2";
        check(
            &[shim, "-namespace", "k8s.io", "-id", "abc", "-address", "/data/containerd.sock"],
            Some("abc"),
        );
        check(&[shim, "-namespace", "k8s.io", "-id", "abc", "-address", "/other/containerd.sock"], None);
        check(&[shim, "-address", "/data/containerd.sock"], Some(""));
        check(&["cat", "-id", "abc", "-address", "/data/containerd.sock"], None);
        check(&[shim, "-id", "/data/containerd.sock"], None);
        check(&[""], None);
    }

    #[test]
    fn a_tree_goes_with_its_root() {
        let mut root = Command::new("sh")
            .args(["-c", "sleep 1000 & echo $!; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(root.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let child: i32 = line.trim().parse().unwrap();
        assert_eq!(parent(child), Some(root.id() as i32));
        kill_tree(root.id() as i32);
        root.wait().unwrap();
        // Whoever inherits it reaps it, sooner or later.
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        while !gone() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
