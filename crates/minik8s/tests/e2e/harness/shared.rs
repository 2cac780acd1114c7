//! Clusters that tests in many processes share, since each test is a process of its own and each cluster costs seconds.
//!
//! The first that asks starts a *keeper*, this binary once more with the one test [`keeper`], which makes the cluster, writes
//! down how to reach it, and takes it apart when nobody has used it for a while or who ran the tests is gone. Two files are
//! locked: `door` while somebody comes in, starts a keeper, or a keeper leaves; `users`, shared, by each test as long as it
//! runs. The kernel takes a lock from whoever dies. What the keeper found left behind is in `failed`, which
//! `scripts/test` looks for when all is over.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};

/// Long enough for a busy machine to start one.
const TIMEOUT: Duration = Duration::from_secs(240);
/// Longer than a test that uses it is followed by another.
const IDLE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(100);
/// For the keeper: what it keeps, its folder, and the process with which it ends.
const KIND: &str = "SHARED_CLUSTER";
const FOLDER: &str = "SHARED_CLUSTER_FOLDER";
const RUNNER: &str = "SHARED_CLUSTER_RUNNER";

/// What there is to share.
const ALL: &[&Shared] = &[&super::cluster::SHARED, &super::cluster::EXAMPLES];

pub struct Shared {
    pub name: &'static str,
    /// Makes it, calls [`Keeper::keep`], takes it apart, and panics if anything is left.
    pub make: fn(Keeper),
}

impl Shared {
    /// How to reach it, as its maker wrote it down, and what keeps it as long as it is held.
    pub fn enter(&self) -> (Flock<File>, Vec<String>) {
        let folder = self.folder();
        let _door = lock(&folder.join("door"), FlockArg::LockExclusive).expect("the door opens");
        let address = folder.join("address");
        if !address.exists() {
            await_keeper(&folder, self.start_keeper(&folder));
        }
        let user = lock(&folder.join("users"), FlockArg::LockShared).expect("room for users");
        let lines = std::fs::read_to_string(address).unwrap();
        (user, lines.lines().map(str::to_owned).collect())
    }

    /// One for each run of nextest; without it, for each process.
    fn folder(&self) -> PathBuf {
        let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string());
        let name = format!("{run}-{}", self.name);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared-cluster").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn start_keeper(&self, folder: &Path) -> Child {
        let is_nextest = std::env::var_os("NEXTEST").is_some();
        let runner = if is_nextest { std::os::unix::process::parent_id() } else { std::process::id() };
        let log = File::options().create(true).append(true).open(folder.join("log")).unwrap();
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "harness::shared::keeper", "--ignored", "--nocapture"])
            .env(KIND, self.name)
            .env(FOLDER, folder)
            .env(RUNNER, runner.to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            // Signals for the test that happened to be the first are not for it.
            .process_group(0)
            .spawn()
            .unwrap()
    }
}

fn await_keeper(folder: &Path, mut keeper: Child) {
    let begun = Instant::now();
    while !folder.join("address").exists() {
        let ended = keeper.try_wait().unwrap();
        assert!(
            ended.is_none() && begun.elapsed() < TIMEOUT,
            "the shared cluster does not start ({ended:?}):\n{}",
            std::fs::read_to_string(folder.join("log")).unwrap_or_default()
        );
        std::thread::sleep(PAUSE);
    }
}

#[test]
#[ignore = "a process that tests on a shared cluster start"]
fn keeper() {
    let wanted = std::env::var(KIND).expect("started by a test");
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("started by a test"));
    let runner = PathBuf::from("/proc").join(std::env::var(RUNNER).expect("started by a test"));
    let failed = folder.join("failed");
    std::fs::write(&failed, format!("the keeper of the shared {wanted} did not come to its end\n")).unwrap();
    let shared = ALL.iter().find(|one| one.name == wanted).expect("something that can be shared");
    (shared.make)(Keeper { folder, runner });
    std::fs::remove_file(failed).unwrap();
}

pub struct Keeper {
    folder: PathBuf,
    runner: PathBuf,
}

impl Keeper {
    /// Lets tests in, until nobody is there and nobody comes.
    pub fn keep(&self, lines: &[String]) {
        std::fs::write(self.folder.join("address.new"), lines.join("\n")).unwrap();
        std::fs::rename(self.folder.join("address.new"), self.folder.join("address")).unwrap();
        let mut used = Instant::now();
        loop {
            let is_wanted = self.runner.exists() && used.elapsed() < IDLE;
            if lock(&self.folder.join("users"), FlockArg::LockExclusiveNonblock).is_none() {
                used = Instant::now();
            } else if !is_wanted && self.leave() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether nobody came in meanwhile.
    fn leave(&self) -> bool {
        let door = lock(&self.folder.join("door"), FlockArg::LockExclusiveNonblock);
        let is_free =
            door.is_some() && lock(&self.folder.join("users"), FlockArg::LockExclusiveNonblock).is_some();
        if is_free {
            std::fs::remove_file(self.folder.join("address")).unwrap();
        }
        is_free
    }
}

fn lock(path: &Path, how: FlockArg) -> Option<Flock<File>> {
    let file = File::options().create(true).append(true).open(path).unwrap();
    Flock::lock(file, how).ok()
}
