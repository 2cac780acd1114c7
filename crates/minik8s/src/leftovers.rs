//! What a node leaves in the kernel when its data dir is removed before `minik8s teardown` ran.
//!
//! Rules, bridge and addresses would then answer for the next cluster on this machine, with endpoints that are long
//! gone. So every node notes its data dir where only this boot sees it, which is as long as the kernel keeps such
//! things, and a starting node clears up after those whose data dir is no more. It never touches a node whose data
//! dir is there, running or not.

use std::path::{Path, PathBuf};

use crate::node;

const NOTES: &str = "/run/minik8s";

/// Notes that this data dir's node has things in the kernel.
pub fn note(data_dir: &Path, instance: &str) {
    let written = std::fs::create_dir_all(NOTES).and_then(|()| {
        std::fs::write(Path::new(NOTES).join(instance), data_dir.as_os_str().as_encoded_bytes())
    });
    if let Err(error) = written {
        tracing::warn!(%error, "cannot note this node in {NOTES}: should its data dir vanish, its rules stay");
    }
}

/// Nothing of it is left.
pub fn forget(instance: &str) {
    // Fails when there is no note, which is what we want.
    let _ = std::fs::remove_file(Path::new(NOTES).join(instance));
}

/// Clears up after nodes whose data dir is gone.
pub async fn remove() {
    for data_dir in abandoned(Path::new(NOTES)) {
        tracing::info!(data_dir = %data_dir.display(), "removing what a node without a data dir left behind");
        if let Err(error) = node::tear_down(&data_dir).await {
            tracing::warn!("cannot remove all of it: {error:#}");
        }
    }
}

fn abandoned(notes: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(notes).into_iter().flatten().flatten();
    let noted = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).map(PathBuf::from);
    // A note cut short by a crash names nothing: a relative path is not one we wrote.
    noted.filter(|data_dir| data_dir.is_absolute() && matches!(data_dir.try_exists(), Ok(false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_without_a_data_dir_are_abandoned() {
        let notes = tempfile::tempdir().unwrap();
        let living = tempfile::tempdir().unwrap();
        let gone = living.path().join("gone");
        for (name, text) in [("1", living.path().to_str().unwrap()), ("2", gone.to_str().unwrap()), ("3", "")]
        {
            std::fs::write(notes.path().join(name), text).unwrap();
        }
        assert_eq!(abandoned(notes.path()), [gone]);
        assert!(abandoned(&living.path().join("no-notes")).is_empty());
    }
}
