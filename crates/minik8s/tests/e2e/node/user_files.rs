//! Files of the machine's users, which pods see through hostPath volumes, outlive whatever happens to the pods.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::json;

use super::space::{IDLE, Space, shell};
use crate::harness::cluster::Cluster;

const NOBODY: u32 = 65_534;
/// `{"alg":`, as the head of a token has it.
const JWT: &str = "eyJhbGciOi";
/// What pods write to their logs.
const SAID: &str = "a-secret-of-the-pod";
const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");

/// The data dir is behind a link, so the mount table calls it by another name than the command line.
pub async fn survive(cluster: Arc<Cluster>) {
    let users = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(users.path().join("sub/deep")).unwrap();
    for file in ["thesis.tex", "sub/data", "sub/deep/more"] {
        std::fs::write(users.path().join(file), file).unwrap();
    }
    let whole = || {
        for file in ["thesis.tex", "sub/data", "sub/deep/more"] {
            let text = std::fs::read_to_string(users.path().join(file));
            assert_eq!(text.ok().as_deref(), Some(file), "a file of the user is gone");
        }
    };
    let space = Space::new(cluster.clone(), "users").await;
    let mut main = shell("main", &format!("echo {SAID}; {IDLE}"));
    main["volumeMounts"] = json!([
        {"name": "host", "mountPath": "/part", "subPath": "sub"}, {"name": "host", "mountPath": "/whole"},
        {"name": "empty", "mountPath": "/empty", "subPath": "new"},
    ]);
    let volumes =
        json!([{"name": "host", "hostPath": {"path": users.path()}}, {"name": "empty", "emptyDir": {}}]);
    let spec = json!({"containers": [main], "volumes": volumes});
    space.pod("first", spec.clone()).await;
    space.ready("first").await;
    space.delete("first", 0).await;
    space.deleted("first").await;
    let pods = cluster.config().pods_dir();
    let nothing_left = || std::fs::read_dir(&pods).unwrap().count() == 0;
    space.eventually("nothing left of the pod", async || nothing_left()).await;
    whole();

    // The server dies while a pod runs, and the node is taken apart with all its data.
    space.pod("second", spec).await;
    space.ready("second").await;
    let logs = cluster.dir.canonicalize().unwrap().join("logs");
    space.eventually("the pod has logged", async || !files_with(&logs, SAID).is_empty()).await;
    closed_to_others(&cluster);
    log_tells_no_credentials(&cluster);
    let refused = teardown(&cluster.dir, &["--purge"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("another server runs"), "{text}");
    space.ready("second").await;
    cluster.crash_server();
    let purged = teardown(&cluster.dir, &["--purge"]);
    assert!(purged.status.success(), "{purged:?}");
    whole();
    let mut left: Vec<_> = std::fs::read_dir(&cluster.dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    // What the test itself has put there; all of minik8s is gone.
    assert_eq!(left, ["busybox.tar", "log", "web.tar"]);
    let text = String::from_utf8_lossy(&purged.stdout).into_owned();
    assert!(text.contains("keeps what is not of minik8s: busybox.tar, log, web.tar"), "{text}");
}

/// Another user of the machine, in a data dir that was open before minik8s came.
fn closed_to_others(cluster: &Cluster) {
    let real = cluster.dir.canonicalize().unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    open(real.parent().unwrap());
    open(&real);
    let mut find = Command::new("find");
    let readable =
        find.arg(&real).args(["-type", "f", "-readable"]).uid(NOBODY).gid(NOBODY).output().unwrap();
    let readable = String::from_utf8_lossy(&readable.stdout).into_owned();
    let names = readable.lines().map(|line| line.trim_start_matches(real.to_str().unwrap()));
    // Nothing below a folder.
    let harmless = ["/log", "/busybox.tar", "/web.tar", "/hosts-file", "/cluster-settings.json"];
    let names: Vec<_> = names.filter(|name| !harmless.contains(name)).collect();
    assert_eq!(names, Vec::<&str>::new(), "nobody can read them");
}

fn log_tells_no_credentials(cluster: &Cluster) {
    let real = cluster.dir.canonicalize().unwrap();
    let log = std::fs::read_to_string(real.join("log")).unwrap();
    let token = std::fs::read_to_string(real.join("join-token")).unwrap();
    assert!(!log.contains(token.trim()), "the join token is in the log");
    // What every signed token begins with, such as the one that the pod was given.
    let tokens = files_with(&real.join("pods"), JWT);
    assert!(!tokens.is_empty(), "the pod has no token, or tokens begin otherwise");
    assert!(!log.contains(JWT) && !log.to_lowercase().contains("bearer "), "a bearer token is in the log");
    assert!(log.contains("minik8s token create") && !log.contains('\u{1b}'), "{log}");
}

/// Those below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let found = Command::new("grep").args(["-rlF", "--", text]).arg(folder).output().unwrap();
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
}

fn teardown(dir: &Path, flags: &[&str]) -> Output {
    Command::new(BINARY).args(["teardown", "--data-dir"]).arg(dir).args(flags).output().unwrap()
}
