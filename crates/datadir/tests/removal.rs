//! Trees with links and mounts in them, removed under faults: nothing outside the data dir may change.
//!
//! Every case runs in a thread with a mount namespace of its own, so nothing of it reaches the machine.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use minik8s_datadir::{
    RemovalError, is_mount_point, prepare, purge, remove_tree, unmount_below, unmount_inside,
};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use proptest::prelude::*;

/// A data dir, and beside it what belongs to somebody else.
struct World {
    base: PathBuf,
    _dir: tempfile::TempDir,
}

impl World {
    /// Runs a test in a mount namespace of its own.
    fn with(test: impl FnOnce(&World) + Send + 'static) {
        assert!(nix::unistd::Uid::effective().is_root(), "these tests mount, and need root");
        let run = move || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
            let dir = tempfile::tempdir().unwrap();
            let world = World { base: fs::canonicalize(dir.path()).unwrap(), _dir: dir };
            fs::create_dir_all(world.users().join("deep/er")).unwrap();
            fs::write(world.users().join("thesis.tex"), "years of work").unwrap();
            fs::write(world.users().join("deep/er/data"), "more").unwrap();
            fs::create_dir_all(world.pods()).unwrap();
            let before = world.outside();
            test(&world);
            assert_eq!(world.outside(), before, "something outside the data dir changed");
            // The directory is removed by a library that walks through mounts.
            unmount_below(&world.base).unwrap();
        };
        std::thread::spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }

    fn users(&self) -> PathBuf {
        self.base.join("users")
    }

    fn pods(&self) -> PathBuf {
        self.base.join("data/pods")
    }

    fn bind(&self, at: &Path) {
        fs::create_dir_all(at).unwrap();
        mount(Some(&self.users()), at, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
            .unwrap();
    }

    /// All that is not in the data dir, by path.
    fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        files(&self.users())
    }
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    found
}

#[test]
fn removal_of_a_tree_with_a_mount_is_refused_as_a_whole() {
    World::with(|world| {
        fs::create_dir_all(world.pods().join("uid/a")).unwrap();
        world.bind(&world.pods().join("uid/subpaths/main/0-0"));
        let error = remove_tree(&world.pods(), "uid").unwrap_err();
        assert!(matches!(error, RemovalError::Mounted { .. }), "{error}");
        assert!(world.pods().join("uid/a").exists(), "nothing is removed of it");
        unmount_below(&world.pods().join("uid")).unwrap();
        remove_tree(&world.pods(), "uid").unwrap();
        assert!(!world.pods().join("uid").exists());
        remove_tree(&world.pods(), "uid").unwrap();
    });
}

/// As when the data dir was given by another name than the mount table has.
#[test]
fn mounts_below_a_linked_data_dir_are_found() {
    World::with(|world| {
        symlink(world.base.join("data"), world.base.join("link")).unwrap();
        let linked = world.base.join("link/pods");
        world.bind(&linked.join("uid/subpaths/main/0-0"));
        assert!(is_mount_point(&linked.join("uid/subpaths/main/0-0")));
        let error = remove_tree(&linked, "uid").unwrap_err();
        assert!(matches!(error, RemovalError::Link(_)), "{error}");
        unmount_below(&linked.join("uid")).unwrap();
        assert!(!is_mount_point(&linked.join("uid/subpaths/main/0-0")));
        assert_eq!(prepare(&world.base.join("link")).unwrap(), world.base.join("data"));
        remove_tree(&world.pods(), "uid").unwrap();
    });
}

#[test]
fn mount_point_itself_is_not_removed() {
    World::with(|world| {
        world.bind(&world.pods().join("uid"));
        assert!(matches!(remove_tree(&world.pods(), "uid"), Err(RemovalError::Mounted { .. })));
        fs::write(world.pods().join("file"), "").unwrap();
        let file = world.users().join("thesis.tex");
        mount(Some(&file), &world.pods().join("file"), None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        assert!(matches!(remove_tree(&world.pods(), "file"), Err(RemovalError::Mounted { .. })));
    });
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    World::with(|world| {
        for name in ["", ".", "..", "../users", "a/b", "/etc", "uid/"] {
            assert!(matches!(remove_tree(&world.pods(), name), Err(RemovalError::Name { .. })), "{name:?}");
        }
        symlink(world.users(), world.pods().join("link")).unwrap();
        remove_tree(&world.pods(), "link").unwrap();
        assert!(fs::symlink_metadata(world.pods().join("link")).is_err(), "only the link goes");
    });
}

/// More directories inside each other than a process may have files open, and than a path may be long.
#[test]
fn removal_bears_any_depth() {
    World::with(|world| {
        let mut here = world.pods().join("uid");
        fs::create_dir(&here).unwrap();
        for _ in 0..15 {
            let name = "d/".repeat(100);
            fs::create_dir_all(here.join(&name)).unwrap();
            // From the inside out, so that no path is too long to be made.
            let outer = world.pods().join("outer");
            fs::create_dir_all(outer.join("d/".repeat(99))).unwrap();
            fs::rename(world.pods().join("uid"), outer.join("d/".repeat(99)).join("uid")).unwrap();
            fs::rename(&outer, world.pods().join("uid")).unwrap();
            here = world.pods().join("uid");
        }
        remove_tree(&world.pods(), "uid").unwrap();
        assert_eq!(fs::read_dir(world.pods()).unwrap().count(), 0);
    });
}

#[test]
fn purge_stops_at_mounts_and_follows_no_link() {
    World::with(|world| {
        let data = world.base.join("data");
        world.bind(&data.join("pods/uid/volumes/v"));
        symlink(world.users(), data.join("containerd")).unwrap();
        assert!(matches!(purge(&data), Err(RemovalError::Mounted { .. })));
        unmount_inside(&data.join("pods")).unwrap();
        let left = purge(&data).unwrap();
        assert_eq!(left.describe(&data), format!("{} is gone.", data.display()));
    });
}

/// A disk that an administrator has mounted on the directory stays; what pods have mounted in it goes.
#[test]
fn unmounting_inside_leaves_the_directory_itself() {
    World::with(|world| {
        let pods = world.pods();
        mount(Some("tmpfs"), &pods, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        world.bind(&pods.join("uid/v"));
        unmount_inside(&pods).unwrap();
        assert!(is_mount_point(&pods) && !is_mount_point(&pods.join("uid/v")));
        remove_tree(&pods, "uid").unwrap();
    });
}

#[derive(Debug, Clone)]
enum Step {
    Directory(usize),
    File(usize),
    LinkOut(usize),
    Bind(usize),
    /// Mounted on top of a place that has files already.
    Tmpfs(usize),
    /// Unmounting that works, or that fails although the caller goes on.
    Unmount,
    Remove,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6_usize).prop_map(Step::Directory),
        3 => (0..6_usize).prop_map(Step::File),
        2 => (0..6_usize).prop_map(Step::LinkOut),
        2 => (0..6_usize).prop_map(Step::Bind),
        1 => (0..6_usize).prop_map(Step::Tmpfs),
        1 => Just(Step::Unmount),
        2 => Just(Step::Remove),
    ]
}

fn place(world: &World, index: usize) -> PathBuf {
    let names = ["uid/volumes/a", "uid/volumes/b/c", "uid/subpaths/m/0-0", "uid/d", "uid/d/e/f", "other/x"];
    world.pods().join(names[index])
}

fn take(world: &World, step: &Step) {
    match step {
        // Through a link or onto a file some of these fail, as they would for an agent.
        Step::Directory(index) => drop(fs::create_dir_all(place(world, *index))),
        Step::File(index) => {
            // What somebody writes through a bind mount is his own to write.
            let dir = place(world, *index);
            if !is_bound(world, &dir) {
                drop(fs::write(dir.join("file"), "ours"));
            }
        }
        Step::LinkOut(index) => {
            let dir = place(world, *index);
            if !is_bound(world, &dir) {
                drop(symlink(world.users(), dir.join("out")));
            }
        }
        Step::Bind(index) => {
            let at = place(world, *index);
            if fs::create_dir_all(&at).is_ok() {
                world.bind(&at);
            }
        }
        Step::Tmpfs(index) => {
            let at = place(world, *index);
            if at.is_dir() {
                mount(Some("tmpfs"), &at, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
            }
        }
        Step::Unmount => unmount_below(&world.pods()).unwrap(),
        // With whatever is mounted there just now: an agent that was killed, an unmount that failed.
        Step::Remove => {
            let removed = remove_tree(&world.pods(), "uid");
            assert_eq!(removed.is_ok(), !world.pods().join("uid").exists(), "{removed:?}");
        }
    }
}

/// Whether writing there would write into the user's directory.
fn is_bound(world: &World, dir: &Path) -> bool {
    let mut ours = dir.ancestors().take_while(|path| path.starts_with(world.pods()));
    ours.any(|path| path.join("thesis.tex").exists())
}

#[test]
fn random_faults_lose_nothing_outside() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(96));
    let ran = runner.run(&proptest::collection::vec(step(), 1..24), |steps| {
        World::with(move |world| {
            for step in &steps {
                take(world, step);
            }
            unmount_below(&world.pods()).unwrap();
            remove_tree(&world.pods(), "uid").unwrap();
            assert!(!world.pods().join("uid").exists());
        });
        Ok(())
    });
    ran.unwrap();
}
