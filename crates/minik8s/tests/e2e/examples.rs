//! Every example's script runs to its end on a real cluster. They run side by side, each in its own namespace.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use crate::harness::cluster::{Cluster, load_image};

/// More only wait for each other, some of them for longer than they are ready to.
const AT_ONCE: usize = 4;

#[test]
fn every_example_runs() {
    let scripts = scripts();
    assert!(scripts.len() >= 6, "{scripts:?}");
    Cluster::builder().run(move |cluster| {
        load_image(&cluster.dir, "load.tar", minik8s_kubelet::image::load().unwrap());
        let (queue, failed) = (Mutex::new(scripts.iter()), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while let Some(script) = { queue.lock().unwrap().next() } {
                        let output = start(script, &cluster).wait_with_output().unwrap();
                        if !output.status.success() {
                            failed.lock().unwrap().push(told(script, &output));
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().unwrap();
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    });
}

fn scripts() -> Vec<PathBuf> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folders = std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path());
    // These need a server with a mesh, or an engine, and have tests of their own.
    let plain = folders.filter(|folder| !folder.ends_with("bookstore") && !folder.ends_with("monitoring"));
    plain.map(|folder| folder.join("run")).filter(|script| script.exists()).collect()
}

fn start(script: &Path, cluster: &Cluster) -> std::process::Child {
    Command::new(script)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("DATA_DIR", &cluster.dir)
        .env("IMAGES", &cluster.dir)
        .env("HTTP_PORT", cluster.http_port())
        .env("MINIK8S", env!("CARGO_BIN_EXE_minik8s"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn told(script: &Path, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{} failed:\n{}{}", script.display(), text(&output.stdout), text(&output.stderr))
}
