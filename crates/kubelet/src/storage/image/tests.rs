use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::storage::{Storage, User};

/// Volumes in a directory of their own. What a test leaves mounted is unmounted with it.
struct Node {
    _dir: tempfile::TempDir,
    images: Images,
    storage: Storage,
}

impl Node {
    fn new() -> Node {
        assert!(nix::unistd::Uid::effective().is_root(), "these tests mount, and need root");
        let dir = tempfile::tempdir().unwrap();
        let config = Config::new("n", &fs::canonicalize(dir.path()).unwrap(), "127.0.0.1".parse().unwrap());
        Node { images: Images::new(&config), storage: Storage::new(&config), _dir: dir }
    }

    fn stage(&self, volume: &core::PersistentVolume) -> Result<PathBuf, StorageError> {
        let wanted = self.images.wanted(volume)?;
        self.images.bring(&wanted)?;
        Ok(self.images.place(volume)?.path)
    }

    /// Whoever on the machine looks at all devices in this moment keeps it until then.
    fn device_goes(&self, name: &str) {
        let (image, begun) = (self.images.dir.join(name).join("image"), Instant::now());
        while !loop_device::loop_devices(&image).unwrap().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(30), "its device stays");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn put_away(&self, name: &str) {
        put_away(&self.images.dir.join(name)).unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.images.staged().iter().for_each(|name| drop(put_away(&self.images.dir.join(name))));
    }
}

fn volume(name: &str, size: &str, mode: &str, attributes: serde_json::Value) -> core::PersistentVolume {
    let mut all = json!({"node": "n"});
    all.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size}, "volumeMode": mode,
        "csi": {"driver": "local.minik8s.io", "volumeHandle": name, "volumeAttributes": all}}}),
    )
    .unwrap()
}

fn filesystem(name: &str, size: &str) -> core::PersistentVolume {
    volume(name, size, "Filesystem", json!({}))
}

#[test]
fn volume_gives_back_what_is_deleted() {
    use std::os::unix::fs::MetadataExt;
    let node = Node::new();
    let mount = node.stage(&filesystem("v", "64Mi")).unwrap();
    let taken = || node.images.dir.join("v/image").metadata().unwrap().blocks() * 512;
    let empty = taken();
    fs::write(mount.join("big"), vec![1; 32 << 20]).unwrap();
    fs::File::open(mount.join("big")).unwrap().sync_all().unwrap();
    assert!(taken() > empty + (24 << 20), "{empty} {}", taken());
    fs::remove_file(mount.join("big")).unwrap();
    nix::unistd::syncfs(fs::File::open(&mount).unwrap()).unwrap();
    node.images.trim_all();
    assert!(taken() < empty + (8 << 20), "{empty} {}", taken());
}

#[test]
fn volume_has_its_size_and_keeps_its_data() {
    let node = Node::new();
    let wanted = filesystem("v", "32Mi");
    let mount = node.stage(&wanted).unwrap();
    let mut file = fs::File::create(mount.join("big")).unwrap();
    let filled = (0..64).find_map(|_| file.write_all(&[1; 1 << 20]).err()).unwrap();
    assert_eq!(filled.raw_os_error(), Some(nix::libc::ENOSPC));
    drop(file);
    fs::remove_file(mount.join("big")).unwrap();
    fs::write(mount.join("kept"), "data").unwrap();
    // Again, as after a restart of the agent; and after the last pod has gone.
    node.stage(&wanted).unwrap();
    node.put_away("v");
    assert!(!mount.join("kept").exists() && node.images.staged().is_empty());
    node.device_goes("v");
    node.stage(&wanted).unwrap();
    assert_eq!(fs::read_to_string(mount.join("kept")).unwrap(), "data");
    // It grows while it is in use.
    let blocks = || statvfs(&mount).map(|s| s.blocks() * s.fragment_size()).unwrap();
    let before = blocks();
    let larger = node.images.wanted(&filesystem("v", "64Mi")).unwrap();
    if let Staged::InUse(why) = node.images.bring(&larger).unwrap() {
        assert!(!may_grow_online(), "{why}");
        node.put_away("v");
        assert_eq!(node.images.bring(&larger).unwrap(), Staged::Whole);
    }
    assert!(blocks() > before + (24 << 20), "{before} {}", blocks());
    assert_eq!(fs::read_to_string(mount.join("kept")).unwrap(), "data");
    node.images.remove("v").unwrap();
    node.images.remove("v").unwrap();
    assert_eq!(fs::read_dir(&node.images.dir).unwrap().count(), 0);
}

/// The kernel asks for a right that root does not have everywhere.
fn may_grow_online() -> bool {
    const SYS_RESOURCE: u64 = 1 << 24;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    u64::from_str_radix(effective, 16).unwrap() & SYS_RESOURCE != 0
}

/// The size of a volume's file system, for a pod that starts.
async fn size_for(node: &Node, pod: &str, size: &str, has_ended: bool) -> u64 {
    let user = User { pod, volume: "data", group: None, only_root_mismatch: false, is_start: true };
    let (place, _) = node.storage.stage(&filesystem("v", size), &user, &|_| has_ended).await.unwrap();
    statvfs(&place.path).map(|s| s.blocks() * s.fragment_size()).unwrap()
}

#[tokio::test]
async fn volume_grows_for_a_pod_that_starts_when_all_others_are_over() {
    let node = Node::new();
    let small = size_for(&node, "first", "16Mi", false).await;
    // Beside one that runs, it grows where the kernel allows that.
    let beside = size_for(&node, "second", "64Mi", false).await;
    assert_eq!(beside > small + (24 << 20), may_grow_online());
    // Those that are over let it go a moment later.
    let release = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        for pod in ["first", "second"] {
            remove_tree(&node.storage.pods, pod).unwrap();
        }
    };
    let (grown, ()) = tokio::join!(size_for(&node, "third", "64Mi", true), release);
    assert!(grown > small + (24 << 20), "{small} {grown}");
}

#[test]
fn volume_made_before_its_pod_is_written_past_the_cache() {
    let node = Node::new();
    let wanted = filesystem("v", "16Mi");
    let image = node.images.dir.join("v/image");
    node.images.make_ahead(&wanted).unwrap();
    assert!(ext4::is_unused(&image) && node.images.staged().is_empty());
    let mount = node.stage(&wanted).unwrap();
    assert!(!ext4::is_unused(&image), "one that was used is checked the next time");
    let device = loop_device::loop_devices(&image).unwrap().remove(0);
    let dio = || fs::read_to_string(format!("/sys/block/{}/loop/dio", &device[5..])).unwrap();
    // Where the file system of the data dir can do that.
    let probe = loop_device::direct(Path::new(&device));
    assert_eq!(dio().trim() == "1", probe.is_ok());
    fs::write(mount.join("f"), "data").unwrap();
    assert_eq!(fs::read_to_string(mount.join("f")).unwrap(), "data");
    // One that does not fit is told to its pod, not here.
    node.images.make_ahead(&filesystem("huge", "9000Ti")).unwrap();
    assert!(!node.images.is_made("huge"));
}

#[test]
fn volume_whose_making_was_cut_short_is_made_again() {
    let node = Node::new();
    fs::create_dir_all(node.images.dir.join("v")).unwrap();
    fs::write(node.images.dir.join("v/image.new"), "half").unwrap();
    let mount = node.stage(&filesystem("v", "16Mi")).unwrap();
    fs::write(mount.join("f"), "x").unwrap();
    assert!(!node.images.dir.join("v/image.new").exists());
    // Killed after the image, before the word that it was made.
    fs::remove_file(node.images.dir.join(made("v"))).unwrap();
    node.images.make_ahead(&filesystem("v", "16Mi")).unwrap();
    assert!(node.images.is_made("v"));
}

#[test]
fn volume_that_was_lost_is_not_replaced_by_an_empty_one() {
    let node = Node::new();
    node.stage(&filesystem("v", "16Mi")).unwrap();
    node.put_away("v");
    remove_tree(&node.images.dir, "v").unwrap();
    let error = node.stage(&filesystem("v", "16Mi")).unwrap_err();
    assert!(matches!(error, StorageError::Lost { .. }), "{error}");
}

#[test]
fn volume_that_is_damaged_is_refused() {
    let node = Node::new();
    node.stage(&filesystem("v", "16Mi")).unwrap();
    node.put_away("v");
    let image = node.images.dir.join("v/image");
    let mut file = fs::File::options().write(true).open(&image).unwrap();
    // All copies of the superblock and the tables.
    file.write_all(&vec![0x5a; 12 << 20]).unwrap();
    let error = node.stage(&filesystem("v", "16Mi")).unwrap_err();
    assert!(matches!(error, StorageError::Damaged { .. }), "{error}");
}

#[test]
fn volume_with_errors_says_so_until_it_is_repaired() {
    let node = Node::new();
    let mount = node.stage(&filesystem("v", "16Mi")).unwrap();
    assert_eq!(loop_device::file_system_errors(&mount), 0);
    let device = loop_device::loop_devices(&node.images.dir.join("v/image")).unwrap().remove(0);
    fs::write(format!("/sys/fs/ext4/{}/trigger_fs_error", &device[5..]), "made by a test").unwrap();
    // The kernel counts it a moment later.
    let begun = std::time::Instant::now();
    while loop_device::file_system_errors(&mount) == 0 {
        assert!(begun.elapsed().as_secs() < 60, "no error is counted");
        std::thread::yield_now();
    }
    assert!(fs::write(mount.join("f"), "x").is_err());
    node.put_away("v");
    node.stage(&filesystem("v", "16Mi")).unwrap();
    assert_eq!(loop_device::file_system_errors(&mount), 0);
    fs::write(mount.join("f"), "x").unwrap();
}

#[test]
fn volume_that_does_not_fit_or_is_not_ours_is_refused() {
    let node = Node::new();
    let error = node.stage(&filesystem("v", "9000Ti")).unwrap_err();
    assert!(matches!(error, StorageError::Full { .. }), "{error}");
    let error = node.stage(&volume("v", "1Mi", "Filesystem", json!({"node": "other"}))).unwrap_err();
    assert!(matches!(error, StorageError::Elsewhere { .. }), "{error}");
    for name in ["..", "a/b", ".hidden", ""] {
        let error = node.stage(&filesystem(name, "1Mi")).unwrap_err();
        assert!(matches!(error, StorageError::Name(_)), "{name}: {error}");
    }
    let error = node.stage(&volume("v", "1Mi", "Filesystem", json!({"source": "../x"}))).unwrap_err();
    assert!(matches!(error, StorageError::Name(_)), "{error}");
}

#[test]
fn volume_that_has_no_room_to_grow_keeps_its_size() {
    let node = Node::new();
    node.stage(&filesystem("v", "16Mi")).unwrap();
    let larger = node.images.wanted(&filesystem("v", "9000Ti")).unwrap();
    let staged = node.images.bring(&larger).unwrap();
    assert!(matches!(&staged, Staged::Smaller(why) if why.contains("bytes free")), "{staged:?}");
    assert_eq!(node.images.dir.join("v/image").metadata().unwrap().len(), 16 << 20);
}

#[test]
fn volume_can_start_with_the_content_of_another_that_is_in_use() {
    let node = Node::new();
    let mount = node.stage(&filesystem("v", "16Mi")).unwrap();
    fs::write(mount.join("f"), "first").unwrap();
    let copy = node.stage(&volume("w", "32Mi", "Filesystem", json!({"source": "v"}))).unwrap();
    fs::write(mount.join("f"), "second").unwrap();
    assert_eq!(fs::read_to_string(copy.join("f")).unwrap(), "first");
    let size = statvfs(&copy).map(|s| s.blocks() * s.fragment_size()).unwrap();
    assert!(size > 24 << 20, "it is as large as it was asked for: {size}");
}

#[test]
fn block_volume_is_a_device() {
    use std::os::unix::fs::FileTypeExt;
    let node = Node::new();
    let device = node.stage(&volume("v", "4Mi", "Block", json!({}))).unwrap();
    assert!(fs::metadata(&device).unwrap().file_type().is_block_device());
    let first = fs::read_link(&device).unwrap();
    node.stage(&volume("v", "8Mi", "Block", json!({}))).unwrap();
    assert_eq!(fs::read_link(&device).unwrap(), first);
    node.put_away("v");
    node.device_goes("v");
}

#[test]
fn snapshot_keeps_what_was_there_and_outlives_its_volume() {
    let node = Node::new();
    let unmade = node.images.snapshot("s", "v").unwrap_err();
    assert!(matches!(unmade, StorageError::Unmade(_)), "{unmade}");
    let mount = node.stage(&filesystem("v", "16Mi")).unwrap();
    fs::write(mount.join("f"), "first").unwrap();
    let taken = node.images.snapshot("s", "v").unwrap();
    assert_eq!((taken.snapshot_id.as_str(), taken.size_bytes, taken.ready_to_use), ("n/s", 16 << 20, true));
    fs::write(mount.join("f"), "second").unwrap();
    // The same name gives the same snapshot.
    assert_eq!(node.images.snapshot("s", "v").unwrap(), taken);
    node.put_away("v");
    node.images.remove("v").unwrap();
    let restored = volume("w", "32Mi", "Filesystem", json!({"snapshot": "s"}));
    assert!(node.images.awaits_snapshot(&restored, "s") && !node.images.awaits_snapshot(&restored, "t"));
    node.images.make_ahead(&restored).unwrap();
    assert!(!node.images.awaits_snapshot(&restored, "s"));
    node.images.remove_snapshot("s").unwrap();
    node.images.remove_snapshot("s").unwrap();
    let copy = node.stage(&restored).unwrap();
    assert_eq!(fs::read_to_string(copy.join("f")).unwrap(), "first");
    let error = node.stage(&volume("x", "32Mi", "Filesystem", json!({"snapshot": "s"}))).unwrap_err();
    assert!(matches!(error, StorageError::NoSnapshot(_)), "{error}");
    let error = node.stage(&volume("x", "32Mi", "Filesystem", json!({"snapshot": "../s"}))).unwrap_err();
    assert!(matches!(error, StorageError::Name(_)), "{error}");
}
