use std::os::unix::fs::{PermissionsExt, symlink};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::*;

const FOREIGN: &str = "127.0.0.1 localhost\n# mine\n10.9.9.9 printer.lan  printer\n";

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}

#[test]
fn hosts_outside_the_block_stay_as_they_are() {
    #[track_caller]
    fn check(old: &str, wanted: &[&str], expected: &str) {
        let new = with_block(old.as_bytes(), "x", &names(wanted), [10, 0, 0, 1].into());
        assert_eq!(String::from_utf8_lossy(&new), expected);
        assert_eq!(with_block(&new, "x", &names(wanted), [10, 0, 0, 1].into()), new, "again");
    }
    let block = "# BEGIN minik8s-x\n10.0.0.1 a.b\n# END minik8s-x\n";
    let other = "# BEGIN minik8s-y\n10.0.0.2 c\n# END minik8s-y\n";
    check("", &[], "");
    check("", &["a.b"], block);
    check("127.0.0.1 localhost", &["a.b"], &format!("127.0.0.1 localhost\n{block}"));
    check(&format!("h\n{block}{other}"), &["a.b"], &format!("h\n{other}{block}"));
    check(&format!("h\n{block}{other}"), &[], &format!("h\n{other}"));
    check(&block.replace("a.b", "old"), &["a.b"], block);
    check("h\n# BEGIN minik8s-x\n1.1.1.1 cut", &["a.b"], &format!("h\n{block}"));
    // A block that lost its end takes nobody else's lines with it.
    let torn = format!("h\n# BEGIN minik8s-x\n1.1.1.1 a\n{FOREIGN}");
    check(&torn, &["a.b"], &format!("h\n{FOREIGN}{block}"));
}

#[test]
fn hosts_file_is_replaced_with_its_mode_and_any_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, kept) = (dir.path().join("hosts"), dir.path().join("kept"));
    fs::write(&path, b"127.0.0.1 localhost\n# caf\xe9\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&path, dir.path().join("link")).unwrap();
    let file = HostsFile::new(&dir.path().join("link"), "x", &kept);
    file.write(&names(&["a"]), [10, 0, 0, 1].into()).unwrap();
    let content = fs::read(&path).unwrap();
    assert!(content.starts_with(b"127.0.0.1 localhost\n# caf\xe9\n"));
    assert!(content.ends_with(b"10.0.0.1 a\n# END minik8s-x\n"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(dir.path().join("link")).unwrap().is_symlink());
    tear_down(&path, "x", &kept);
    assert_eq!(fs::read(&path).unwrap(), b"127.0.0.1 localhost\n# caf\xe9\n");
    let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["hosts", "link"], "nothing else stays");
}

#[test]
fn hosts_file_comes_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (path, kept) = (dir.path().join("hosts"), dir.path().join("kept"));
    HostsFile::new(&path, "x", &kept).write(&names(&["a"]), [10, 0, 0, 1].into()).unwrap();
    assert!(text(&path).contains("10.0.0.1 a\n"));
    tear_down(&path, "x", &kept);
    assert_eq!(text(&path), "");
}

/// Runs a test in a mount namespace of its own, with a directory on a tmpfs of that size.
fn with_disk(kilobytes: u32, test: impl FnOnce(&Path) + Send + 'static) {
    assert!(nix::unistd::Uid::effective().is_root(), "these tests mount, and need root");
    let run = move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk");
        fs::create_dir(&disk).unwrap();
        let size = format!("size={kilobytes}k");
        mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).unwrap();
        test(&disk);
        nix::mount::umount2(&disk, nix::mount::MntFlags::MNT_DETACH).unwrap();
    };
    std::thread::spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn bind_on_itself(path: &Path) {
    mount(Some(path), path, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
}

fn fill(disk: &Path) {
    let mut filler = File::create(disk.join("filler")).unwrap();
    let full = io::copy(&mut io::repeat(b'x'), &mut filler).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn hosts_file_that_is_a_mount_is_written_in_place() {
    with_disk(256, |disk| {
        let (path, kept) = (disk.join("hosts"), disk.join("kept"));
        fs::write(&path, FOREIGN).unwrap();
        bind_on_itself(&path);
        let file = HostsFile::new(&path, "x", &kept);
        file.write(&names(&["a", "b"]), [10, 0, 0, 1].into()).unwrap();
        let block = "# BEGIN minik8s-x\n10.0.0.1 a\n10.0.0.1 b\n# END minik8s-x\n";
        assert_eq!(text(&path), format!("{FOREIGN}{block}"));
        file.write(&names(&["b"]), [10, 0, 0, 1].into()).unwrap();
        file.write(&names(&[]), [10, 0, 0, 1].into()).unwrap();
        assert_eq!(text(&path), FOREIGN);
        assert!(!kept.exists());
        nix::mount::umount2(&path, nix::mount::MntFlags::MNT_DETACH).unwrap();
    });
}

#[test]
fn hosts_file_on_a_full_disk_stays_whole() {
    for is_mount in [false, true] {
        with_disk(64, move |disk| {
            let path = disk.join("hosts");
            fs::write(&path, FOREIGN).unwrap();
            if is_mount {
                bind_on_itself(&path);
            }
            fill(disk);
            let many: Vec<_> = (0..1000).map(|n| format!("name-{n}.example")).collect();
            let many: BTreeSet<String> = many.into_iter().collect();
            let elsewhere = tempfile::tempdir().unwrap();
            for kept in [disk.join("kept"), elsewhere.path().join("kept")] {
                let file = HostsFile::new(&path, "x", &kept);
                let error = file.write(&many, [10, 0, 0, 1].into()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
                assert_eq!(text(&path), FOREIGN);
            }
            fs::remove_file(disk.join("filler")).unwrap();
            HostsFile::new(&path, "x", &elsewhere.path().join("kept"))
                .write(&names(&["a"]), [10, 0, 0, 1].into())
                .unwrap();
            assert!(text(&path).starts_with(FOREIGN));
            if is_mount {
                nix::mount::umount2(&path, nix::mount::MntFlags::MNT_DETACH).unwrap();
            }
        });
    }
}

/// A kill or a power failure at any byte of a write in place.
#[test]
fn hosts_write_that_was_cut_short_loses_no_line() {
    let block = "# BEGIN minik8s-x\n10.0.0.1 old\n# END minik8s-x\n";
    let old = format!("127.0.0.1 localhost\n{block}{}", &FOREIGN["127.0.0.1 localhost\n".len()..]);
    let new = with_block(old.as_bytes(), "x", &names(&["first", "second"]), [10, 0, 0, 1].into());
    let dir = tempfile::tempdir().unwrap();
    let (path, kept) = (dir.path().join("hosts"), dir.path().join("kept"));
    for cut in 0..=new.len() {
        for shorten in [true, false] {
            let mut torn = new[..cut].to_vec();
            if !shorten {
                torn.extend_from_slice(old.as_bytes().get(cut..).unwrap_or_default());
            }
            fs::write(&path, torn).unwrap();
            fs::write(&kept, &old).unwrap();
            let file = HostsFile::new(&path, "x", &kept);
            file.write(&names(&["first", "second"]), [10, 0, 0, 1].into()).unwrap();
            let whole = text(&path);
            for line in FOREIGN.lines() {
                assert!(
                    whole.lines().any(|other| other == line),
                    "cut at {cut}: {line:?} is not in {whole:?}"
                );
            }
            assert!(whole.contains("10.0.0.1 second\n# END minik8s-x\n") && !kept.exists());
        }
    }
}

/// What somebody adds after the crash and before the next start stays too.
#[test]
fn hosts_lines_added_after_a_cut_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (path, kept) = (dir.path().join("hosts"), dir.path().join("kept"));
    fs::write(&path, "127.0.0.1 loc\n192.0.2.7 nas\n").unwrap();
    fs::write(&kept, FOREIGN).unwrap();
    HostsFile::new(&path, "x", &kept).write(&names(&[]), [10, 0, 0, 1].into()).unwrap();
    let whole = text(&path);
    assert!(whole.starts_with(FOREIGN) && whole.contains("192.0.2.7 nas\n"), "{whole}");
}
