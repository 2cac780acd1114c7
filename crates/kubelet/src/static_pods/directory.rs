//! The directory of manifests, and word of its changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use nix::sys::inotify::AddWatchFlags;
use tokio::sync::mpsc;
use tracing::warn;

use super::file;
use crate::dir_changes::tell_changes;

/// A file that is being written makes no sense yet.
const INTERESTING: AddWatchFlags =
    AddWatchFlags::IN_CLOSE_WRITE.union(AddWatchFlags::IN_MOVE).union(AddWatchFlags::IN_DELETE);

pub struct Directory {
    path: PathBuf,
    node_name: String,
    changes: mpsc::Receiver<()>,
}

impl Directory {
    /// Makes the directory if need be. Without inotify its changes are seen at the next start only.
    pub fn watch(path: &Path, node_name: &str) -> Directory {
        let (sender, changes) = mpsc::channel(1);
        if let Err(error) =
            std::fs::create_dir_all(path).and_then(|()| tell_changes(path, INTERESTING, sender))
        {
            warn!(%error, ?path, "changes of static pods will not be seen");
        }
        Directory { path: path.to_owned(), node_name: node_name.to_owned(), changes }
    }

    /// Waits for a change; for ever if none can be seen.
    pub async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// The pods of all files by their UIDs. A file that makes no sense is left out, with a warning.
    pub fn read(&self) -> BTreeMap<String, Arc<core::Pod>> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| is_manifest(path));
        let read = |path: PathBuf| {
            let pod = std::fs::read_to_string(&path)
                .map_err(|error| error.to_string())
                .and_then(|text| file::parse(&text, &path, &self.node_name));
            match pod {
                Ok(pod) => Some((pod.metadata.uid.clone()?, Arc::new(pod))),
                Err(error) => {
                    warn!(?path, error, "this is not a pod");
                    None
                }
            }
        };
        files.filter_map(read).collect()
    }
}

/// Editors write hidden and backup files beside the real ones.
fn is_manifest(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let known = [".yaml", ".yml", ".json", ".manifest"].iter().any(|end| name.ends_with(end));
    !name.starts_with('.') && known && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let mut directory = Directory::watch(dir.path(), "n1");
        assert!(directory.read().is_empty());
        let manifest = "metadata: {name: web}\nspec: {containers: [{name: a, image: b}]}";
        std::fs::write(dir.path().join("web.yaml"), manifest).unwrap();
        directory.changed().await;
        std::fs::write(dir.path().join("local_state.txt"), "not a pod").unwrap();
        std::fs::write(dir.path().join("broken.yaml"), "{").unwrap();
        std::fs::write(dir.path().join(".hidden.yaml"), manifest).unwrap();
        let pods = directory.read();
        assert_eq!(pods.len(), 1);
        assert_eq!(pods.values().next().unwrap().metadata.name.as_deref(), Some("web-n1"));
        std::fs::remove_file(dir.path().join("web.yaml")).unwrap();
        directory.changed().await;
        assert!(directory.read().is_empty());
    }
}
