//! Whose devices they are, on disk: pods go on while the agent does not.

use std::io;
use std::path::Path;

use super::inventory::Allocation;

const FILE: &str = "kubelet_internal_checkpoint";

/// What was kept; nothing of a file that cannot be read, which is told.
pub fn read(dir: &Path) -> Vec<Allocation> {
    let text = match std::fs::read(dir.join(FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::error!(%error, "cannot read whose devices are whose");
            return Vec::new();
        }
    };
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        tracing::error!(%error, "the file of whose devices are whose makes no sense");
        Vec::new()
    })
}

/// Whole or not at all.
pub fn write(dir: &Path, allocations: &[Allocation]) -> io::Result<()> {
    let new = dir.join(format!("{FILE}.new"));
    let file = std::fs::File::create(&new)?;
    serde_json::to_writer(&file, allocations)?;
    file.sync_all()?;
    std::fs::rename(new, dir.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_come_back() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read(dir.path()).is_empty());
        let one = Allocation {
            uid: "u".into(),
            namespace: "n".into(),
            pod: "p".into(),
            container: "c".into(),
            resource: "example.com/gpu".into(),
            devices: ["a".to_owned()].into(),
            answer: vec![1, 2],
        };
        write(dir.path(), std::slice::from_ref(&one)).unwrap();
        assert_eq!(read(dir.path()), [one]);
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(read(dir.path()).is_empty());
    }
}
