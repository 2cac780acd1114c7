use minik8s_csi::controller::{SnapshotSource, VolumeContentSource, VolumeSource};
use minik8s_csi::{CapacityRange, Mode, Mount};
use minik8s_meta::shared_storage::ClusterStatus;
use parking_lot::Mutex;

use super::*;
use crate::engine::Daemon;
use crate::part::tests::part;

/// Directories of the machine, with limits that nobody enforces.
#[derive(Default)]
struct Directories {
    limits: Mutex<Vec<u64>>,
}

impl Engine for Directories {
    fn programs(&self, _: &Part) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    fn daemons(&self, _: &Part) -> Vec<Daemon> {
        Vec::new()
    }

    fn prepare(&self, _: &Part, _: &Daemon) -> Result<(), SharedError> {
        Ok(())
    }

    fn set_old_aside(&self, _: &Part) -> Result<(), SharedError> {
        Ok(())
    }

    fn mount(&self, _: &Part, _: &str, _: &Path, _: &[String]) -> Vec<String> {
        Vec::new()
    }

    fn adopt(&self, _: &Part, _: &Path) -> Result<(), SharedError> {
        Ok(())
    }

    fn limit(&self, _: &Part, _: &Path, bytes: u64) -> Result<(), SharedError> {
        self.limits.lock().push(bytes);
        Ok(())
    }

    fn copy(&self, _: &Path, to: &Path) -> Result<(), SharedError> {
        fs::create_dir(to).map_err(at(to))
    }

    fn forget(&self, _: &Part, _: &str, _: &str) -> Result<(), SharedError> {
        Ok(())
    }

    fn status(&self, _: &Part) -> Result<ClusterStatus, SharedError> {
        Err(SharedError::NotSetUp)
    }

    fn ports(&self) -> &'static [u16] {
        &[]
    }
}

struct World {
    dir: tempfile::TempDir,
    engine: Directories,
    part: Part,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        for name in [VOLUMES, SNAPSHOTS, RECORDS] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        World { dir, engine: Directories::default(), part: part("a", "/d") }
    }

    fn root(&self) -> Root<'_> {
        Root { engine: &self.engine, part: &self.part, path: self.dir.path().to_owned() }
    }

    /// The volume's size in MiB.
    fn create(&self, name: &str, mib: (i64, i64), content: Option<Content>) -> Result<i64, SharedError> {
        let call = CreateVolume {
            name: name.to_owned(),
            capacity_range: Some(CapacityRange { required_bytes: mib.0 << 20, limit_bytes: mib.1 << 20 }),
            volume_capabilities: vec![capability(false)],
            volume_content_source: content.map(|content| VolumeContentSource { content: Some(content) }),
            ..CreateVolume::default()
        };
        Ok(self.root().create(&call)?.volume.unwrap().capacity_bytes >> 20)
    }

    fn expand(&self, name: &str, mib: i64) -> Result<i64, SharedError> {
        let call = ExpandVolume {
            volume_id: name.to_owned(),
            capacity_range: Some(CapacityRange::at_least(mib << 20)),
            ..ExpandVolume::default()
        };
        Ok(self.root().expand(&call)?.capacity_bytes >> 20)
    }

    fn snapshot(&self, name: &str, of: &str) -> Result<Snapshot, SharedError> {
        let call = CreateSnapshot {
            name: name.to_owned(),
            source_volume_id: of.to_owned(),
            ..CreateSnapshot::default()
        };
        Ok(self.root().snapshot(&call)?.snapshot.unwrap())
    }

    fn names(&self, kind: &str) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join(kind)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn capability(is_block: bool) -> VolumeCapability {
    VolumeCapability::new(is_block, Mount::default(), Mode::MultiNodeMultiWriter)
}

fn of_volume(name: &str) -> Option<Content> {
    Some(Content::Volume(VolumeSource { volume_id: name.to_owned() }))
}

fn of_snapshot(name: &str) -> Option<Content> {
    Some(Content::Snapshot(SnapshotSource { snapshot_id: name.to_owned() }))
}

fn is_another<T>(result: Result<T, SharedError>) -> bool {
    matches!(result, Err(SharedError::Exists(_)))
}

fn is_missing<T>(result: Result<T, SharedError>) -> bool {
    matches!(result, Err(SharedError::NotFound(_)))
}

#[test]
fn volume_of_the_same_name_is_the_same_or_refused() {
    let world = World::new();
    assert_eq!(world.create("v", (8, 8), None).unwrap(), 8);
    // The range allows what there is.
    for range in [(8, 8), (8, 0), (4, 0), (0, 0), (4, 16), (0, 8)] {
        assert_eq!(world.create("v", range, None).unwrap(), 8, "{range:?}");
    }
    for range in [(16, 0), (16, 16), (4, 4), (0, 7)] {
        assert!(is_another(world.create("v", range, None)), "{range:?}");
    }
    assert!(is_another(world.create("v", (8, 0), of_volume("v"))));
    world.create("w", (8, 0), of_volume("v")).unwrap();
    world.create("w", (8, 0), of_volume("v")).unwrap();
    assert!(is_another(world.create("w", (8, 0), None)));
    assert!(is_another(world.create("w", (8, 0), of_volume("w"))));
    assert_eq!(world.names(VOLUMES), ["v", "w"]);
}

#[test]
fn volume_without_a_record_is_taken_as_it_is() {
    let world = World::new();
    fs::create_dir(world.dir.path().join("volumes/old")).unwrap();
    assert_eq!(world.create("old", (8, 0), None).unwrap(), 8);
    assert_eq!(world.expand("old", 16).unwrap(), 16);
    assert!(world.names(RECORDS).is_empty());
}

#[test]
fn volume_grows_and_never_shrinks() {
    let world = World::new();
    world.create("v", (8, 0), None).unwrap();
    assert_eq!(world.expand("v", 16).unwrap(), 16);
    assert_eq!(world.expand("v", 16).unwrap(), 16);
    assert_eq!(world.expand("v", 4).unwrap(), 16);
    assert_eq!(*world.engine.limits.lock(), [8, 16, 16, 16].map(|mib: u64| mib << 20));
    assert_eq!(world.create("v", (8, 0), None).unwrap(), 16);
    assert!(is_missing(world.expand("none", 8)));
}

#[test]
fn volume_is_deleted_once_and_again() {
    let world = World::new();
    world.create("v", (8, 0), of_volume("none")).unwrap_err();
    world.create("v", (8, 0), None).unwrap();
    world.root().delete("v").unwrap();
    world.root().delete("v").unwrap();
    world.root().delete("never").unwrap();
    assert!(world.names(VOLUMES).is_empty() && world.names(RECORDS).is_empty());
    // One of the same name may be another now.
    assert_eq!(world.create("v", (16, 0), None).unwrap(), 16);
    assert!(matches!(world.root().delete("../v"), Err(SharedError::Name(_))));
}

#[test]
fn snapshot_of_the_same_name_is_the_same_or_refused() {
    let world = World::new();
    world.create("v", (8, 0), None).unwrap();
    world.create("w", (8, 0), None).unwrap();
    assert!(is_missing(world.snapshot("s", "none")));
    let first = world.snapshot("s", "v").unwrap();
    assert!(is_another(world.snapshot("s", "w")));
    world.root().delete("v").unwrap();
    assert_eq!(world.snapshot("s", "v").unwrap(), first);
    world.create("copy", (8, 0), of_snapshot("s")).unwrap();
    world.root().delete_snapshot("s").unwrap();
    world.root().delete_snapshot("s").unwrap();
    assert!(is_missing(world.create("late", (8, 0), of_snapshot("s"))));
    world.snapshot("s", "w").unwrap();
}

#[test]
fn volume_that_is_not_there_is_told() {
    let world = World::new();
    let validate = |name: &str, is_block: bool| {
        let volume_capabilities = vec![capability(is_block)];
        world.root().validate(&ValidateCapabilities { volume_id: name.to_owned(), volume_capabilities })
    };
    assert!(is_missing(validate("v", false)) && is_missing(world.root().volume("v")));
    world.create("v", (8, 0), None).unwrap();
    assert!(world.root().volume("v").is_ok());
    assert!(validate("v", false).unwrap().confirmed.is_some());
    assert!(validate("v", true).unwrap().confirmed.is_none());
}
