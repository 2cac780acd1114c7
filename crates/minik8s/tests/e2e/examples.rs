//! Every example's script runs to its end on a real cluster, which they share. Each is a test of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::cluster::{Cluster, EXAMPLES, run_on};
use crate::harness::ranges::Number;

/// Folders below `examples/`, with `_` for `-`.
macro_rules! examples {
    ($($name:ident),+ $(,)?) => {
        const NAMES: &[&str] = &[$(stringify!($name)),+];

        $(#[test]
        fn $name() {
            run_example(stringify!($name));
        })+
    };
}

examples! {
    add_or_multiply, alexa, autoscaling, control_plane_crash, database, deployment, dns, gateway, image_pipeline, limits,
    network_policy, node_join, order_workflow, pod, policies, service, shared_pod, strategies, triggers, web,
}

/// These need a server with a mesh, or an engine, and are run by the tests of those.
const ELSEWHERE: &[&str] = &["bookstore", "monitoring"];

#[test]
fn examples_have_a_test_each() {
    let folders = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let names = folders
        .filter(|path| path.join("run").exists())
        .map(|path| path.file_name().unwrap().to_str().unwrap().replace('-', "_"));
    let tested = NAMES.iter().chain(ELSEWHERE).map(|name| (*name).to_owned());
    assert_eq!(names.collect::<BTreeSet<_>>(), tested.collect());
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn run_example(name: &str) {
    let script = folder().join(name.replace('_', "-")).join("run");
    run_on(&EXAMPLES, move |cluster| {
        // For those with a lab: one that no other test has meanwhile.
        let lab = Number::claim("lab", 12 * 256);
        let output = command(&script, &cluster).env("LAB_NUMBER", lab.value.to_string()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{} failed:\n{}{}",
            script.display(),
            text(&output.stdout),
            text(&output.stderr)
        );
    });
}

fn command(script: &Path, cluster: &Cluster) -> Command {
    let mut command = Command::new(script);
    command
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("DATA_DIR", &cluster.dir)
        .env("IMAGES", &cluster.dir)
        .env("HTTP_PORT", cluster.http_port())
        .env("MINIK8S", env!("CARGO_BIN_EXE_minik8s"))
        .stdin(Stdio::null());
    command
}
