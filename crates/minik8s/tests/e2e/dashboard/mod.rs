//! The dashboard in a real browser, against a real server with simulated nodes. What is done and looked at is in
//! `web/tests`; this makes the cluster, the link, and the rights.

mod door;
mod server_door;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{Server, ours};

/// Lets pages look at something: pods that run, one that cannot, and names and texts that would like to be markup.
const CLUSTER: &str = include_str!("cluster.yaml");
/// Functions, workflows, claims, a GPU job.
const OWN: &str = include_str!("own.yaml");
/// A split Service, an autoscaler, a pod that waits.
const VIEWS: &str = include_str!("views.yaml");

#[test]
fn every_page_works_in_both_themes_and_languages() {
    alone();
    let server = Server::start();
    let _nodes = Background::start(&server, &["simulate", "--nodes", "3", "--pods-per-node", "20"]);
    kubectl(&server, &["wait", "--for=create", "node", "--all", "--timeout=180s"], "");
    kubectl(&server, &["apply", "-f", "-"], CLUSTER);
    let available = ["wait", "-n", "shop", "--for=condition=Available", "deployment/web", "--timeout=180s"];
    kubectl(&server, &available, "");
    let mut dashboard = Background::start(&server, &["dashboard", "--print-url"]);
    let link = dashboard.first_line();
    browse("pages.mjs", &[&link], &server);
}

/// Functions, workflows, storage and GPU jobs.
#[test]
fn kinds_of_our_own_have_pages() {
    alone();
    let server = Server::start();
    let _nodes = Background::start(&server, &["simulate", "--nodes", "1", "--pods-per-node", "20"]);
    kubectl(&server, &["wait", "--for=create", "node", "--all", "--timeout=180s"], "");
    kubectl(&server, &["apply", "-f", "-"], OWN);
    let mut dashboard = Background::start(&server, &["dashboard", "--print-url"]);
    let link = dashboard.first_line();
    browse("own.mjs", &[&link], &server);
}

/// The mesh, autoscaling, the past, rights, drains, and why pods wait.
#[test]
fn views_tell_what_happens_and_what_happened() {
    alone();
    let server = Server::start_with(&["--mesh", "--history", "10m,64MiB"]);
    let _nodes = Background::start(&server, &["simulate", "--nodes", "2", "--pods-per-node", "20"]);
    kubectl(&server, &["wait", "--for=create", "node/sim-0001", "--timeout=180s"], "");
    kubectl(&server, &["cordon", "sim-0001"], "");
    kubectl(&server, &["apply", "-f", "-"], VIEWS);
    kubectl(&server, &["create", "configmap", "ghost", "-n", "shop", "--from-literal=wisdom=all of it"], "");
    let available = ["wait", "-n", "shop", "--for=condition=Available", "deployment/web", "--timeout=180s"];
    kubectl(&server, &available, "");
    // What the store remembers is six tenths of a second apart.
    std::thread::sleep(Duration::from_secs(1));
    kubectl(&server, &["delete", "configmap", "ghost", "-n", "shop"], "");
    let mut dashboard = Background::start(&server, &["dashboard", "--print-url"]);
    let link = dashboard.first_line();
    browse("views.mjs", &[&link], &server);
}

/// At the API server's own door, with a token that may not do much.
#[test]
fn token_sees_what_it_may_and_nothing_else() {
    alone();
    let server = Server::start();
    kubectl(&server, &["apply", "-f", "-"], CLUSTER);
    kubectl(&server, &["create", "serviceaccount", "guest", "-n", "shop"], "");
    let binding =
        ["create", "rolebinding", "guest", "-n", "shop", "--clusterrole=view", "--serviceaccount=shop:guest"];
    kubectl(&server, &binding, "");
    let token = kubectl(&server, &["create", "token", "guest", "-n", "shop"], "");
    browse("token.mjs", &[&server.url, token.trim()], &server);
}

#[test]
fn sources_and_pure_parts_are_checked() {
    for (script, name) in [("check", "svelte-check"), ("unit", "the unit tests")] {
        let run = npm().args(["run", "--silent", script]).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{name}:\n{said}{}", String::from_utf8_lossy(&run.stderr));
    }
}

/// What comes to a phone over a slow line, and what the program grows by.
#[test]
fn bundles_are_small() {
    let size = |file: &Path| std::fs::metadata(file).unwrap().len();
    let dist = web().join("dist");
    let files: Vec<PathBuf> =
        std::fs::read_dir(dist.join("assets")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let named = |start: &str, end: &str| -> u64 {
        let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
        files
            .iter()
            .filter(|file| name(file).starts_with(start) && name(file).ends_with(end))
            .map(|f| size(f))
            .sum()
    };
    let shell = named("index-", ".gz") + size(&dist.join("index.html.gz"));
    assert!(shell > 10_000, "the build has other names: {files:?}");
    assert!(shell <= 70_000, "the shell has {shell} bytes (gzip), 70,000 at most");
    let embedded = named("", "z") + named("", "br");
    assert!(embedded <= 900_000, "the program grows by {embedded} bytes, 900,000 at most");
}

/// Five thousand pods that change, and a log that does not end: what the page alone costs, against a server that a script
/// plays.
#[test]
fn page_is_fast_with_many_pods_and_lines() {
    let run = Command::new("node").arg(web().join("tests/speed.mjs")).current_dir(web()).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    println!("{said}");
}

/// No address of a registry, no page that makes markup of text.
#[test]
fn sources_keep_their_promises() {
    let lock = std::fs::read_to_string(web().join("package-lock.json")).unwrap();
    assert!(!lock.contains("\"resolved\""), "package-lock.json names a registry: see web/.npmrc");
    let mut folders = vec![web().join("src")];
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if file.is_dir() {
                folders.push(file);
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            for banned in
                ["{@html", "innerHTML", "eval(", ": any;", ": any)", ": any,", "<any", "as any", "@ts-ignore"]
            {
                assert!(!text.contains(banned), "{} contains {banned}", file.display());
            }
            assert!(text.lines().count() <= 400, "{} is long", file.display());
        }
    }
}

/// A network of its own, in which nothing changes: Chromium drops its connections when an interface comes or goes.
fn alone() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
        .expect("a network namespace; tests run as root");
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
}

/// A command of ours that runs until the end of the test.
struct Background {
    process: Child,
}

impl Background {
    fn start(server: &Server, arguments: &[&str]) -> Background {
        let process = Command::new(env!("CARGO_BIN_EXE_minik8s"))
            .arg("--kubeconfig")
            .arg(server.kubeconfig())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Background { process }
    }

    fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("http"), "no link: {line:?}");
        line.trim().to_owned()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn kubectl(server: &Server, arguments: &[&str], input: &str) -> String {
    let mut process = Command::new(ours(server))
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ended = process.wait_with_output().unwrap();
    assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

/// Runs a script of `web/tests`. Screenshots are kept where SCREENSHOTS says.
fn browse(script: &str, arguments: &[&str], server: &Server) {
    let folder = std::env::var("SCREENSHOTS").unwrap_or_default();
    let run = Command::new("node")
        .arg(web().join("tests").join(script))
        .args(arguments)
        .args(Some(folder).filter(|folder| !folder.is_empty()))
        .current_dir(web())
        .output()
        .expect("node runs: scripts/setup --test installs it");
    let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{script}:\n{said}\n--- server\n{}", server.log());
}

fn npm() -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(web());
    npm
}

fn web() -> PathBuf {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web").canonicalize().unwrap();
    assert!(web.join("node_modules").is_dir(), "the dashboard is not built: run scripts/ui --strict");
    web
}
