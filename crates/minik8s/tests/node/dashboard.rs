//! The dashboard's windows into containers, in a real browser: logs as they grow, a shell, and how a pod failed.

use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::space::{IDLE, Space, shell};

const MINIK8S: &str = env!("CARGO_BIN_EXE_minik8s");

/// What `web/tests/pod.mjs` looks at.
pub async fn logs_and_shells_in_a_browser(space: Space) {
    let talk = format!(
        "echo '<img src=x onerror=alert(1)>'; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i 中文; done; {IDLE}"
    );
    space.pod("talker", json!({"containers": [shell("main", &talk)]})).await;
    space.pod("broken", json!({"containers": [shell("main", "echo no luck; exit 3")]})).await;
    space.ready("talker").await;
    space.waiting("broken", "CrashLoopBackOff").await;
    let mut dashboard = space
        .command(MINIK8S)
        .args(["dashboard", "--print-url"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let link = BufReader::new(dashboard.stdout.take().unwrap()).lines().next_line().await.unwrap().unwrap();
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let run = tokio::process::Command::new("node")
        .current_dir(&web)
        .args(["tests/pod.mjs", &link, &space.name])
        .args(std::env::var("SCREENSHOTS"))
        .output()
        .await
        .expect("node runs: scripts/setup --test installs it");
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    dashboard.kill().await.unwrap();
}
