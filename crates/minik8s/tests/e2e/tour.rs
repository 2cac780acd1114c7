//! The README's tour, as it stands there: every line must work when it is typed.
//!
//! Only what belongs to this machine is exchanged: the data dir, the binary, ranges and ports that no other cluster
//! uses, and `make`, which would build a release first.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::program::free_port;
use crate::harness::ranges::{Number, Ranges};

/// Lines are typed by people, who wait until a pod runs: a line that fails is tried again for this long.
const TIMEOUT_SECONDS: u32 = 180;

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
    let place = Place::new();
    let ended = place.type_in(&blocks("README.md")[0]);
    // Also when the tour broke off.
    let data_dir = place.dir.path().join("data");
    let cleaned = place.shell("scripts/down --purge");
    assert!(ended.is_ok(), "{}\n{}", ended.unwrap_err(), log(&data_dir));
    assert!(cleaned.is_ok(), "{}", cleaned.unwrap_err());
    assert!(!data_dir.exists());
}

#[test]
fn several_nodes() {
    let place = Place::new();
    let ended = place.type_in(&blocks("README.md")[1]);
    let cleaned = place.shell("scripts/lab down");
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

/// Where a tour goes, and the number of its lab.
struct Place {
    dir: tempfile::TempDir,
    lab: Number,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::Builder::new().prefix("mk8s-tour-").tempdir().unwrap();
        Place { dir, lab: Number::claim("lab", 12 * 256) }
    }

    fn type_in(&self, tour: &str) -> Result<String, String> {
        let dir_text = self.dir.path().to_str().unwrap();
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
        self.shell(&format!("set -x\n{script}"))
    }

    fn shell(&self, script: &str) -> Result<String, String> {
        let (dir, lab) = (self.dir.path(), self.lab.value);
        let (http_port, ranges) = (free_port(), Ranges::claim());
        let flags = format!(
            "--node-port {} --http-port {} --https-port {} --cluster-cidr {} --service-cidr {}",
            free_port(),
            http_port,
            free_port(),
            ranges.pods(),
            ranges.services(),
        );
        let output = Command::new("bash")
            .args(["-c", script])
            .current_dir(root())
            .env("MINIK8S", env!("CARGO_BIN_EXE_minik8s"))
            .env("IMAGES", dir.join("images"))
            .env("DATA_DIR", dir.join("data"))
            .env("PORT", free_port().to_string())
            .env("SERVER_FLAGS", flags)
            .env("HTTP_PORT", http_port.to_string())
            .env("LAB_NAME", format!("t{lab:x}"))
            .env("LAB_NET", format!("172.{}.{}", 18 + lab / 256, lab % 256))
            .env("LAB_DIR", dir.join("lab"))
            .output()
            .unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(text) } else { Err(text) }
    }
}

fn log(data_dir: &Path) -> String {
    std::fs::read_to_string(data_dir.join("server.log")).unwrap_or_default()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
