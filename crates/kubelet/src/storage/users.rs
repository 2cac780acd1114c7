//! Which pods use which volume: links in the pods' directories. Nothing else remembers it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::User;

/// Where a pod's link to a claimed volume is.
fn claim_path(pods: &Path, pod: &str, volume: &str) -> PathBuf {
    pods.join(pod).join("volumes").join(volume)
}

/// Makes or renews the link that says that a pod uses a volume.
pub fn note(pods: &Path, user: &User<'_>, path: &Path) -> io::Result<()> {
    let at = claim_path(pods, user.pod, user.volume);
    if fs::read_link(&at).is_ok_and(|old| old == path) {
        return Ok(());
    }
    if let Some(parent) = at.parent() {
        fs::create_dir_all(parent)?;
    }
    let _ = fs::remove_file(&at);
    std::os::unix::fs::symlink(path, at)
}

/// Whether any pod links to something in the directory of a volume.
pub fn any(pods: &Path, volume: &str) -> io::Result<bool> {
    Ok(links(pods)?.iter().any(|(_, link)| is_inside(link, volume)))
}

/// Whether another pod than this one links to a path.
pub fn is_used_by_other(pods: &Path, path: &Path, pod: &str) -> io::Result<bool> {
    Ok(links(pods)?.iter().any(|(user, link)| link == path && user != pod))
}

/// The other pods than this one that link to something in the directory of a volume.
pub fn others(pods: &Path, volume: &str, pod: &str) -> io::Result<Vec<String>> {
    let links = links(pods)?.into_iter();
    Ok(links.filter(|(user, link)| is_inside(link, volume) && user != pod).map(|(user, _)| user).collect())
}

/// Whether there are any.
pub fn is_used_by_others(pods: &Path, volume: &str, pod: &str) -> io::Result<bool> {
    others(pods, volume, pod).map(|others| !others.is_empty())
}

fn is_inside(link: &Path, volume: &str) -> bool {
    link.parent().and_then(Path::file_name).is_some_and(|name| name == volume)
}

/// All links, with the pods they are of. A directory that cannot be read is an error: nobody may take that for "nobody".
fn links(pods: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for pod in entries(pods)? {
        for volume in entries(&pod.path().join("volumes"))? {
            if let Ok(link) = fs::read_link(volume.path()) {
                found.push((pod.file_name().to_string_lossy().into_owned(), link));
            }
        }
    }
    Ok(found)
}

fn entries(dir: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_tell_who_uses_a_volume() {
        let dir = tempfile::tempdir().unwrap();
        let pods = dir.path().join("pods");
        let place = dir.path().join("volumes/pvc-1/mount");
        assert!(!any(&pods, "pvc-1").unwrap());
        let user = User { pod: "a", volume: "data", group: None, only_root_mismatch: false, is_start: true };
        note(&pods, &user, Path::new("/elsewhere")).unwrap();
        note(&pods, &user, &place).unwrap();
        note(&pods, &user, &place).unwrap();
        assert!(any(&pods, "pvc-1").unwrap() && !any(&pods, "pvc").unwrap());
        assert!(!is_used_by_other(&pods, &place, "a").unwrap());
        assert!(is_used_by_other(&pods, &place, "b").unwrap());
        assert!(is_used_by_others(&pods, "pvc-1", "b").unwrap());
        assert_eq!(others(&pods, "pvc-1", "b").unwrap(), ["a"]);
        assert!(!is_used_by_others(&pods, "pvc-1", "a").unwrap());
        minik8s_datadir::remove_tree(&pods, "a").unwrap();
        assert!(!any(&pods, "pvc-1").unwrap());
    }
}
