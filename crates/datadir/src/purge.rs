//! Removes what minik8s has put into its data dir, by name, and nothing else.
//!
//! A data dir can be a directory that somebody uses for more, be it by a slip of the keyboard. So what minik8s does not
//! know stays, and is told; so do files of static pods, which people write.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::Path;

use crate::{RemovalError, remove_tree};

/// All names of files and directories that the parts of minik8s, and `make up`, make in a data dir.
const OWN: &[&str] = &[
    "admin.kubeconfig",
    "agent.lock",
    "checkpoints",
    "cluster-settings.json",
    "cni",
    "containerd",
    "credentials",
    "device-plugins",
    "dra_manager_state",
    "ended-logs",
    "disks",
    "function-code",
    "hosts-file",
    "hosts-kept",
    "join-token",
    "known-policies.json",
    "known-routes.json",
    "known-services.json",
    "log-export.json",
    "logs",
    "nfs",
    "pki",
    "plugins_registry",
    "pod-resources",
    "pods",
    "registry",
    "server.lock",
    "server.log",
    "server.pid",
    "sidecar",
    "slots",
    "store.redb",
];

/// Of files that are being replaced, or were.
const SUFFIXES: &[&str] = &[".before-restore", ".filling", ".new", ".tmp"];

/// What agents know, while it is being written.
const KEPT: &[&str] = &["known-policies", "known-routes", "known-services"];

/// People put files there: static pods, profiles of seccomp. Each goes only when it is empty.
const PEOPLES: &[&str] = &["manifests", "seccomp"];

/// Users' data: images of volumes and their snapshots, what is shared between nodes. It is removed with its objects, while
/// the cluster lives, and never by a purge.
const DATA: &[&str] = &["shared", "volume-snapshots", "volumes"];

/// Drivers of volumes put their sockets and files there.
const PLUGINS: &str = "plugins";

/// Drivers of devices describe them there.
const CDI: &str = "cdi";

/// What is left of a data dir.
#[derive(Debug, PartialEq, Eq)]
pub enum Purged {
    /// Not even the directory.
    Nothing,
    /// The directory is empty and stays: it is a mount point, or a link leads to it.
    Empty,
    /// Names that minik8s does not know.
    Others(Vec<OsString>),
}

/// Empties a data dir in which nothing runs and nothing is mounted any more. Stops at the first thing that cannot be
/// removed.
pub fn purge(data_dir: &Path) -> Result<Purged, RemovalError> {
    let failed = |source| RemovalError::Io { path: data_dir.to_owned(), source };
    let resolved = match fs::canonicalize(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Purged::Nothing),
        other => other.map_err(failed)?,
    };
    for name in names(&resolved).map_err(failed)? {
        if is_own(&name) {
            remove_tree(&resolved, &name)?;
        } else if name == PLUGINS {
            // What is left there is the drivers'.
            remove_tree(&resolved.join(PLUGINS), "kubernetes.io")?;
            let _ = fs::remove_dir(resolved.join(PLUGINS));
        } else if is_known(&name) {
            let _ = fs::remove_dir(resolved.join(&name));
        }
    }
    let others = names(&resolved).map_err(failed)?;
    if !others.is_empty() {
        return Ok(Purged::Others(others));
    }
    let reached_by_link = fs::symlink_metadata(data_dir).is_ok_and(|metadata| metadata.is_symlink());
    // A mount point cannot be removed either.
    let stays = reached_by_link || fs::remove_dir(&resolved).is_err();
    Ok(if stays { Purged::Empty } else { Purged::Nothing })
}

/// Whether the name means something in a data dir, whoever makes files of it.
pub fn is_known(name: &OsStr) -> bool {
    let others = PEOPLES.iter().chain(DATA).chain(&[PLUGINS, CDI]);
    is_own(name) || others.into_iter().any(|known| name == *known)
}

/// Whether minik8s makes files of that name.
fn is_own(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let plain = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    let hidden = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
    [Some(plain), hidden].into_iter().flatten().any(|name| OWN.contains(&name))
        || [name, plain].iter().any(|name| KEPT.contains(name))
}

fn names(dir: &Path) -> io::Result<Vec<OsString>> {
    let mut names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

impl Purged {
    /// For the person who asked for it.
    pub fn describe(&self, data_dir: &Path) -> String {
        let dir = data_dir.display();
        match self {
            Purged::Nothing => format!("{dir} is gone."),
            Purged::Empty => format!("{dir} is empty."),
            Purged::Others(names) => {
                let (data, others): (Vec<_>, Vec<_>) =
                    names.iter().map(|name| name.to_string_lossy()).partition(|name| DATA.contains(&&**name));
                let kept: Vec<String> = data.iter().map(|name| format!("{name}/")).collect();
                let volumes = format!(
                    "{dir} keeps {}: data of persistent volumes, which is yours to remove.",
                    kept.join(", ")
                );
                let others_kept = format!("{dir} keeps what is not of minik8s: {}", others.join(", "));
                match (data.is_empty(), others.is_empty()) {
                    (true, _) => others_kept,
                    (false, true) => volumes,
                    (false, false) => format!("{volumes}\n{others_kept}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn purge_knows_its_own_names() {
        let check = |name: &str, own: bool| assert_eq!(is_own(OsStr::new(name)), own, "{name}");
        check("pods", true);
        check("store.redb.before-restore", true);
        check(".admin.kubeconfig.tmp", true);
        check("known-services.new", true);
        check("known-policies.new", true);
        check("pods-of-mine", false);
        check(".pods", false);
        check("manifests", false);
        check("thesis.tex", false);
        check("", false);
        check("..", false);
    }

    #[test]
    fn purge_keeps_files_of_others() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(temporary.path()).unwrap().join("data");
        fs::create_dir_all(dir.join("pods/uid/volumes")).unwrap();
        fs::create_dir_all(dir.join("manifests")).unwrap();
        fs::write(dir.join("manifests/web.yaml"), "kind: Pod").unwrap();
        fs::write(dir.join("store.redb"), "").unwrap();
        fs::write(dir.join("thesis.tex"), "years").unwrap();
        fs::create_dir_all(dir.join("volumes")).unwrap();
        let left = purge(&dir).unwrap();
        assert_eq!(left, Purged::Others(vec!["manifests".into(), "thesis.tex".into()]));
        assert_eq!(fs::read_to_string(dir.join("thesis.tex")).unwrap(), "years");
        assert!(!dir.join("pods").exists() && !dir.join("store.redb").exists());
        fs::remove_file(dir.join("thesis.tex")).unwrap();
        fs::remove_file(dir.join("manifests/web.yaml")).unwrap();
        symlink(&dir, dir.with_file_name("link")).unwrap();
        assert_eq!(purge(&dir.with_file_name("link")).unwrap(), Purged::Empty);
        assert!(dir.is_dir(), "whoever made the link made the directory");
        assert_eq!(purge(&dir).unwrap(), Purged::Nothing);
        assert!(!dir.exists());
        assert_eq!(purge(&dir).unwrap(), Purged::Nothing, "again");
    }

    #[test]
    fn purge_keeps_volumes_and_says_what_they_are() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(temporary.path()).unwrap();
        fs::create_dir_all(dir.join("volumes/pvc-1")).unwrap();
        fs::write(dir.join("volumes/pvc-1/image"), "rows").unwrap();
        let left = purge(&dir).unwrap();
        assert_eq!(left, Purged::Others(vec!["volumes".into()]));
        let at = dir.display();
        let volumes = format!("{at} keeps volumes/: data of persistent volumes, which is yours to remove.");
        assert_eq!(left.describe(&dir), volumes);
        let both = Purged::Others(vec!["a".into(), "volumes".into()]);
        assert_eq!(both.describe(&dir), format!("{volumes}\n{at} keeps what is not of minik8s: a"));
    }
}
