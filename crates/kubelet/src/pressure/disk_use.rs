//! What a pod takes of the node's disk: its emptyDir volumes and its logs. Everything here walks files and blocks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Config;
use crate::pod::{DesiredPod, ForcedTermination};
use crate::quantity;
use crate::sandbox::pod_log_dir;

/// Bytes on disk that go with the pod.
pub fn disk_use(config: &Config, pod: &DesiredPod) -> u64 {
    let volumes = pod.spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let on_disk = volumes.iter().filter(|volume| {
        volume.empty_dir.as_ref().is_some_and(|source| source.medium.as_deref() != Some("Memory"))
    });
    let dirs = on_disk.map(|volume| volume_dir(config, pod, &volume.name));
    dirs.chain([pod_log_dir(config, pod)]).map(|dir| size_of(&dir, u64::MAX)).sum()
}

fn volume_dir(config: &Config, pod: &DesiredPod, name: &str) -> PathBuf {
    config.pods_dir().join(&pod.uid).join("volumes").join(name)
}

/// Why a pod must go because a volume of it grew beyond its limit.
pub fn overflow(config: &Config, pod: &DesiredPod) -> Option<ForcedTermination> {
    let volumes = pod.spec()?.volumes.as_deref()?;
    volumes.iter().find_map(|volume| {
        let source = volume.empty_dir.as_ref().filter(|source| source.medium.as_deref() != Some("Memory"))?;
        let text = &source.size_limit.as_ref()?.0;
        let limit = quantity::value(text).filter(|limit| *limit > 0)? as u64;
        let dir = volume_dir(config, pod, &volume.name);
        (size_of(&dir, limit) > limit).then(|| ForcedTermination {
            reason: "Evicted".to_owned(),
            at_once: true,
            rejected: false,
            message: format!("Usage of EmptyDir volume \"{}\" exceeds the limit \"{text}\". ", volume.name),
        })
    })
}

/// Bytes below a directory; stops counting beyond the limit.
fn size_of(dir: &Path, limit: u64) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                open.push(entry.path());
            }
            sum += metadata.blocks() * 512;
            if sum > limit {
                return sum;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/file"), vec![1; 100_000]).unwrap();
        assert!(size_of(dir.path(), u64::MAX) >= 100_000);
        assert_eq!(size_of(&dir.path().join("nothing"), 1), 0);
    }
}
