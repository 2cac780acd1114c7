//! emptyDir volumes on disk that grew beyond their limit.

use std::fs;
use std::path::Path;

use crate::Config;
use crate::pod::{Blueprint, End};
use crate::quantity;

/// Why a pod must go because of its volumes. Walks their files; blocks.
pub fn overflow(config: &Config, pod: &Blueprint) -> Option<End> {
    let volumes = pod.spec()?.volumes.as_deref()?;
    volumes.iter().find_map(|volume| {
        let source = volume.empty_dir.as_ref().filter(|source| source.medium.as_deref() != Some("Memory"))?;
        let text = &source.size_limit.as_ref()?.0;
        let limit = quantity::value(text).filter(|limit| *limit > 0)? as u64;
        let dir = config.pods_dir().join(&pod.uid).join("volumes").join(&volume.name);
        (size_of(&dir, limit) > limit).then(|| End {
            reason: "Evicted".to_owned(),
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
