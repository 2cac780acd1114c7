use std::os::unix::fs::{FileExt, MetadataExt};

use serde_json::{Value, json};

use super::super::{Storage, User};
use super::*;

/// A blank disk of 64 MiB, and a node to which it belongs. Both go with it.
struct Disk {
    dir: tempfile::TempDir,
    config: Config,
    device: PathBuf,
}

impl Disk {
    fn new() -> Disk {
        assert!(nix::unistd::Uid::effective().is_root(), "these tests mount, and need root");
        let dir = tempfile::tempdir().unwrap();
        let config = Config::new("n", &fs::canonicalize(dir.path()).unwrap(), "127.0.0.1".parse().unwrap());
        let image = dir.path().join("disk");
        fs::File::create_new(&image).unwrap().set_len(64 << 20).unwrap();
        let device = run("losetup", MOUNT, [Path::new("-f"), Path::new("--show"), &image]).unwrap();
        Disk { dir, config, device: device.into() }
    }

    fn volume(&self, spec: Value) -> core::PersistentVolume {
        let mut all = json!({"local": {"path": self.device}, "volumeMode": "Filesystem"});
        let fs_type = spec["fsType"].clone();
        all["local"]["fsType"] = fs_type;
        all["mountOptions"] = spec["mountOptions"].clone();
        serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": all})).unwrap()
    }

    /// As for a pod, by the way that all volumes go.
    async fn stage(&self, spec: Value, group: Option<u32>) -> Result<PathBuf, StorageError> {
        let user = User { pod: "p", volume: "data", group, only_root_mismatch: false, is_start: true };
        let storage = Storage::new(&self.config);
        storage.stage(&self.volume(spec), &user, &|_| false).await.map(|(place, _)| place.path)
    }

    /// The pod has gone.
    async fn release(&self) {
        minik8s_datadir::remove_tree(&self.config.pods_dir(), "p").unwrap();
        Storage::new(&self.config).release_unused().await;
        assert!(Disks::new(&self.config).staged().is_empty());
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.dir.path().join("disk")).unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = ext4::unmount(&Disks::new(&self.config).mount_of("v"));
        let _ = run("losetup", MOUNT, [Path::new("-d"), &self.device]);
    }
}

#[tokio::test]
async fn blank_device_is_formatted_once_and_keeps_its_files() {
    let disk = Disk::new();
    let mount = disk.stage(json!({}), Some(1234)).await.unwrap();
    assert_eq!(content(&disk.device).unwrap(), Content::FileSystem("ext4".to_owned()));
    assert!(is_mount_point(&mount), "{}", mount.display());
    assert_eq!((mount.metadata().unwrap().gid(), mount.metadata().unwrap().mode() & 0o7777), (1234, 0o2775));
    fs::write(mount.join("file"), "kept").unwrap();
    assert_eq!(disk.stage(json!({}), None).await.unwrap(), mount, "a second container finds it mounted");
    disk.release().await;
    assert!(!mount.join("file").exists());
    let again = disk.stage(json!({"fsType": "ext4"}), None).await.unwrap();
    assert_eq!(fs::read_to_string(again.join("file")).unwrap(), "kept");
    disk.release().await;
}

#[tokio::test]
async fn device_gets_the_file_system_that_the_volume_names() {
    let disk = Disk::new();
    disk.stage(json!({"fsType": "ext2", "mountOptions": ["noatime"]}), None).await.unwrap();
    assert_eq!(content(&disk.device).unwrap(), Content::FileSystem("ext2".to_owned()));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|line| line.starts_with(&format!("{} ", disk.device.display()))).unwrap();
    assert!(line.contains(" ext2 ") && line.contains("noatime"), "{line}");
    disk.release().await;
}

#[tokio::test]
async fn device_that_holds_something_else_is_refused_unchanged() {
    let refuse = async |disk: &Disk, spec: Value, reason: &str| {
        let before = disk.bytes();
        let error = disk.stage(spec, None).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert!(before == disk.bytes(), "{reason}: the device was written");
        disk.release().await;
    };
    let disk = Disk::new();
    refuse(&disk, json!({"mountOptions": ["ro"]}), "it is blank").await;
    refuse(&disk, json!({"fsType": "nonsense"}), "nonsense").await;
    let table = fs::File::options().write(true).open(disk.dir.path().join("disk")).unwrap();
    // One partition of Linux, and the signature of a table.
    table.write_all_at(&[0x80, 0, 2, 0, 0x83, 0, 0, 0, 1, 0, 0, 0, 0xFF, 0x0F, 0, 0], 446).unwrap();
    table.write_all_at(&[0x55, 0xAA], 510).unwrap();
    table.sync_all().unwrap();
    run("blockdev", UTIL_LINUX, [Path::new("--flushbufs"), &disk.device]).unwrap();
    refuse(&disk, json!({}), "it holds a partition table (dos)").await;

    let formatted = Disk::new();
    format(&formatted.device, "ext4").unwrap();
    refuse(&formatted, json!({"fsType": "xfs"}), "it holds a file system ext4, the volume says fsType xfs")
        .await;
    let mount = formatted.stage(json!({}), None).await.unwrap();
    assert!(is_mount_point(&mount));
    formatted.release().await;
}

#[test]
fn blkid_answers_are_understood() {
    let check = |text: &str, expected: Content| assert_eq!(told(text), expected, "{text}");
    check("DEVNAME=/dev/x\nTYPE=xfs\n", Content::FileSystem("xfs".to_owned()));
    check("DEVNAME=/dev/x\nPTTYPE=gpt\n", Content::Other("a partition table (gpt)".to_owned()));
    check("TYPE=vfat\nPTTYPE=dos\n", Content::FileSystem("vfat".to_owned()));
    check("DEVNAME=/dev/x\n", Content::Other("something that blkid does not name".to_owned()));
}

#[test]
fn file_systems_of_one_family_are_akin() {
    let check = |fs_type: &str, found: &str, expected: bool| {
        assert_eq!(is_akin(fs_type, found), expected, "{fs_type} {found}");
    };
    check("xfs", "xfs", true);
    check("ext4", "ext2", true);
    check("xfs", "ext4", false);
    check("ext4", "LVM2_member", false);
}
