//! Rules about the repository itself.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which crates a crate may depend on, from the top down. A new crate must be placed here.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "minik8s",
        &[
            "api",
            "apiserver",
            "auth",
            "cli",
            "controllers",
            "join",
            "kubelet",
            "metrics",
            "network",
            "router",
            "runtime",
            "scheduler",
            "store",
        ],
    ),
    ("cli", &["api"]),
    ("apiserver", &["api", "auth", "metrics", "patch", "protobuf", "schema", "store"]),
    ("controllers", &["metrics", "runtime", "api"]),
    ("scheduler", &["metrics", "runtime", "api"]),
    ("join", &["auth"]),
    ("kubelet", &["metrics"]),
    ("network", &["metrics"]),
    ("router", &["api", "metrics"]),
    ("metrics", &[]),
    ("runtime", &["api"]),
    ("auth", &[]),
    ("patch", &["schema"]),
    ("protobuf", &[]),
    ("api", &["schema"]),
    ("schema", &[]),
    ("store", &[]),
];

const LONGEST_FILE: usize = 800;

#[test]
fn crates_depend_downwards_only() {
    let allowed: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    for directory in crates() {
        let name = file_name(&directory);
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap();
        let Some(below) = allowed.get(name.as_str()) else {
            panic!("crate {name} has no place among the layers: add it to LAYERS in {}", file!());
        };
        let dependencies = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for line in dependencies.lines().filter(|line| line.starts_with("minik8s-")) {
            let dependency = line["minik8s-".len()..].split(['.', ' ', '=']).next().unwrap_or_default();
            assert!(below.contains(&dependency), "crate {name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_layers_have_no_cycle() {
    let height = |name: &str| LAYERS.iter().position(|(layer, _)| *layer == name);
    for (name, below) in LAYERS {
        for other in *below {
            assert!(height(other) > height(name), "{other} must stand below {name} in LAYERS");
        }
    }
}

#[test]
fn source_files_are_short_and_say_what_they_are() {
    let mut problems = Vec::new();
    for file in rust_files(&root().join("crates")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let shown = file.strip_prefix(root()).unwrap().display().to_string();
        let is_test = shown.contains("tests");
        if !text.starts_with("//!") && !is_test {
            problems.push(format!("{shown}: begin with a //! paragraph: what it is and why"));
        }
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            problems.push(format!("{shown}: {lines} lines; split it by responsibility"));
        }
        for word in ["todo!(", "unimplemented!(", "FIXME", "XXX"] {
            if text.contains(word) && !shown.ends_with("layers.rs") {
                problems.push(format!("{shown}: contains {word}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn crates() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.join("Cargo.toml").is_file()).collect()
}

fn rust_files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(rust_files(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
    found
}
