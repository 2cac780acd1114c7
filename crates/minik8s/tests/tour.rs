//! The README's tour, as it stands there: every line must work when it is typed.
//!
//! Only what belongs to this machine is exchanged: the data dir, the binary, ranges and ports that no other cluster
//! uses, and `make`, which would build a release first.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "harness/ranges.rs"]
mod ranges;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use ranges::Ranges;

/// Lines are typed by people, who wait until a pod runs: a line that fails is tried again for this long.
const TIMEOUT_SECONDS: u32 = 60;

/// What `make` does for the tour, without building.
const MAKE: &str = r#"
make() {
  case "$1" in
    up) scripts/up "$MINIK8S" ;;
    down) scripts/down ;;
    images) images/build "$IMAGES" ;;
    lab) scripts/lab up "${2#NODES=}" && scripts/lab-ready "${2#NODES=}" ;;
    lab-down) scripts/lab down ;;
    *) echo "the tour has a new make target: $1" >&2; return 1 ;;
  esac
}
"#;

#[test]
fn one_node() {
    let dir = tempfile::Builder::new().prefix("mk8s-tour-").tempdir().unwrap();
    let ended = type_in(&blocks("README.md")[0], dir.path());
    // Also when the tour broke off.
    let data_dir = dir.path().join("data");
    let cleaned = shell("scripts/down --purge", dir.path());
    assert!(ended.is_ok(), "{}\n{}", ended.unwrap_err(), log(&data_dir));
    assert!(cleaned.is_ok(), "{}", cleaned.unwrap_err());
    assert!(!data_dir.exists());
}

#[test]
fn several_nodes() {
    let dir = tempfile::Builder::new().prefix("mk8s-tour-").tempdir().unwrap();
    let ended = type_in(&blocks("README.md")[1], dir.path());
    let cleaned = shell("scripts/lab down", dir.path());
    assert!(ended.is_ok(), "{}", ended.unwrap_err());
    assert!(cleaned.is_ok(), "{}", cleaned.unwrap_err());
}

#[test]
fn the_chinese_readme_has_the_same_tour() {
    let bare = |text: &String| -> Vec<String> {
        text.lines().map(|line| line.split("  #").next().unwrap().trim().to_owned()).collect()
    };
    let [english, chinese] = ["README.md", "README.zh.md"].map(blocks);
    assert_eq!(english.iter().map(bare).collect::<Vec<_>>(), chinese.iter().map(bare).collect::<Vec<_>>());
}

/// The code blocks of the tour's case that have more than one line.
fn blocks(readme: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(readme)).unwrap();
    let blocks: Vec<String> = text
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .filter(|block| block.contains("export KUBECONFIG"))
        .collect();
    assert_eq!(blocks.len(), 2, "one tour on one node, one on several");
    blocks
}

fn type_in(tour: &str, dir: &Path) -> Result<String, String> {
    let dir_text = dir.to_str().unwrap();
    let tour = tour
        .replace("/var/lib/minik8s", &format!("{dir_text}/data"))
        .replace("/tmp/mklab", &format!("{dir_text}/lab"))
        .replace("target/release/minik8s image load", "\"$MINIK8S\" image load --data-dir \"$DATA_DIR\"")
        .replace("target/release/minik8s", "\"$MINIK8S\"")
        .replace("http://hello.example", "http://hello.example:$HTTP_PORT")
        .replace("images/out", "$IMAGES");
    let mut script = MAKE.to_owned();
    for line in tour.lines().filter(|line| !line.is_empty()) {
        script.push_str(&format!(
            "deadline=$((SECONDS + {TIMEOUT_SECONDS}))\n\
             until {{ {line}\n}}; do [ $SECONDS -lt $deadline ] || exit 1; sleep 0.3; done </dev/null\n"
        ));
    }
    shell(&format!("set -x\n{script}"), dir)
}

fn shell(script: &str, dir: &Path) -> Result<String, String> {
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (id, http_port, ranges) = (std::process::id(), port(), Ranges::claim());
    let flags = format!(
        "--node-port {} --http-port {} --https-port {} --cluster-cidr {} --service-cidr {}",
        port(),
        http_port,
        port(),
        ranges.pods(),
        ranges.services(),
    );
    let output = Command::new("bash")
        .args(["-c", script])
        .current_dir(root())
        .env("MINIK8S", env!("CARGO_BIN_EXE_minik8s"))
        .env("IMAGES", dir.join("images"))
        .env("DATA_DIR", dir.join("data"))
        .env("PORT", port().to_string())
        .env("SERVER_FLAGS", flags)
        .env("HTTP_PORT", http_port.to_string())
        .env("LAB_NAME", format!("t{:x}", id & 0xfffff))
        .env("LAB_NET", format!("172.{}.{}", 18 + (id >> 8) % 12, id & 0xff))
        .env("LAB_DIR", dir.join("lab"))
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(text) }
}

fn log(data_dir: &Path) -> String {
    std::fs::read_to_string(data_dir.join("server.log")).unwrap_or_default()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
