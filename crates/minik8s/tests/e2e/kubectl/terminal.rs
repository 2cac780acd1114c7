//! Our program on a terminal: long work shows a line of progress there, and nothing of it in a pipe; an editor gets the
//! terminal.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Kubectl, Server};

const MINIK8S: &str = env!("CARGO_BIN_EXE_minik8s");
const TIMEOUT: Duration = Duration::from_secs(60);
/// How the line is taken away.
const ERASED: &str = "\r\u{1b}[K";

/// A command on a terminal of its own, and what it has shown.
struct Terminal {
    child: Child,
    shown: String,
}

impl Terminal {
    fn start(k: &Kubectl, command: &str) -> Terminal {
        let line =
            format!("{MINIK8S} --kubeconfig {} -n {} {command}", k.kubeconfig().display(), k.namespace);
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env("HOME", k.dir());
        script.env("KUBE_EDITOR", "sh -c 'test -t 0 && test -t 1 && sed -i s/before/after/ \"$0\"'");
        let child = script.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("script starts");
        Terminal { child, shown: String::new() }
    }

    /// Reads until this is there.
    fn until(&mut self, text: &str) {
        let begun = Instant::now();
        let mut buffer = [0; 4096];
        while !self.shown.contains(text) {
            let length = self.child.stdout.as_mut().expect("a pipe").read(&mut buffer).expect("output");
            assert!(length > 0 && begun.elapsed() < TIMEOUT, "never shown: {text}\n{:?}", self.shown);
            self.shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
    }

    /// All that it has shown, and its exit code.
    fn end(mut self) -> (String, i32) {
        let mut rest = Vec::new();
        self.child.stdout.take().expect("a pipe").read_to_end(&mut rest).expect("output");
        self.shown.push_str(&String::from_utf8_lossy(&rest));
        (self.shown, self.child.wait().expect("an end").code().unwrap_or(-1))
    }
}

/// On a terminal the command shows `progress`; `relief` lets it end, and it `says` so. In a pipe it says only that.
fn check(k: &Kubectl, command: &str, progress: &str, relief: impl Fn(), says: &str, again: impl Fn()) {
    let mut terminal = Terminal::start(k, command);
    terminal.until(progress);
    relief();
    let (shown, code) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    let (_, last) = shown.rsplit_once(ERASED).unwrap_or_else(|| panic!("the line stays: {shown:?}"));
    assert!(shown.contains(says) && !last.contains(progress), "{shown:?}");

    again();
    let piped = std::thread::scope(|scope| {
        let piped = scope.spawn(|| k.output(command, ""));
        relief();
        piped.join().expect("an end")
    });
    assert_eq!(piped.code, 0, "{piped:#?}");
    piped.says(says);
    for part in ["\r", "\u{1b}"] {
        piped.silent_on(part);
    }
}

#[test]
fn long_work_shows_progress() {
    let server = Server::start();
    let k = &Kubectl::new(&server, Path::new(MINIK8S), "progress");
    waiting(k);
    rolling_out(k);
    deleting(k);
    draining(k);
    applying(k);
}

fn waiting(k: &Kubectl) {
    k.run("create configmap flag");
    let set = |value: &str| {
        k.run(&format!("patch configmap flag --type=merge -p '{{\"data\":{{\"up\":\"{value}\"}}}}'"))
    };
    check(
        k,
        "wait configmap/flag --for=jsonpath='{.data.up}'=yes --timeout=60s",
        "░░░░░░░░░░░░ 0/1 done  waiting for jsonpath={.data.up}=yes",
        || drop(set("yes")),
        "configmap/flag condition met",
        || drop(set("no")),
    );
}

fn rolling_out(k: &Kubectl) {
    k.run("create deployment web --image=nginx --replicas=1");
    check(
        k,
        "rollout status deployment/web --timeout=60s",
        "░░░░░░░░░░░░ 0/1 pods  rolling out deployment.apps/web",
        || drop(k.run("scale deployment web --replicas=0")),
        "deployment \"web\" successfully rolled out",
        || drop(k.run("scale deployment web --replicas=1")),
    );
}

fn deleting(k: &Kubectl) {
    let held = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.com/hold]}\n";
    let make = || drop(k.run_with(held, "create -f -"));
    make();
    let release = || {
        // Once it is being deleted, or the patch would come before.
        k.run("wait configmap/held --for=jsonpath='{.metadata.deletionTimestamp}' --timeout=60s");
        k.run("patch configmap held --type=merge -p '{\"metadata\":{\"finalizers\":null}}'");
    };
    check(
        k,
        "delete configmap held",
        "░░░░░░░░░░░░ 0/1 gone  waiting until configmap/held is gone",
        release,
        "configmap \"held\" deleted",
        make,
    );
}

fn draining(k: &Kubectl) {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: full}\n";
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: held, finalizers: [example.com/hold]}\n\
        spec: {nodeName: full, containers: [{name: c, image: nginx}]}\n";
    k.run_with(node, "create -f -");
    let make = || drop(k.run_with(pod, "create -f -"));
    make();
    let release = || {
        k.run("wait pod/held --for=jsonpath='{.metadata.deletionTimestamp}' --timeout=60s");
        k.run("patch pod held --type=merge -p '{\"metadata\":{\"finalizers\":null}}'");
        k.run("delete pod held --grace-period=0 --force --ignore-not-found");
    };
    check(
        k,
        "drain full --force",
        "░░░░░░░░░░░░ 0/1 pods gone  draining node/full",
        release,
        "node/full drained",
        make,
    );
}

/// Enough objects to take longer than a moment.
fn applying(k: &Kubectl) {
    let file = k.dir().join("many.yaml");
    let one = |n: usize| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: many-{n}}}\n---\n");
    std::fs::write(&file, (0..300).map(one).collect::<String>()).expect("a file");
    let command = format!("apply -f {}", file.display());
    let (shown, code) = Terminal::start(k, &command).end();
    assert!(code == 0 && shown.contains("/300 objects  applying ") && shown.contains(ERASED), "{shown:?}");
    let piped = k.run(&command);
    assert_eq!(piped.stdout.lines().count(), 300);
    piped.silent_on("\r").silent_on("objects");
}

/// The editor has the terminal, and what it leaves is sent.
#[test]
fn editing_on_a_terminal() {
    let server = Server::start();
    let k = &Kubectl::new(&server, Path::new(MINIK8S), "editing");
    k.run("create configmap settings --from-literal=a=before");
    let (shown, code) = Terminal::start(k, "edit configmap settings").end();
    assert!(code == 0 && shown.contains("configmap/settings edited"), "{shown:?}");
    k.run("get configmap settings -o jsonpath='{.data.a}'").is("after");
    let (shown, _) = Terminal::start(k, "edit configmap settings").end();
    assert!(shown.contains("Edit cancelled, no changes made."), "{shown:?}");
}

/// `minik8s ui` on a terminal: rows as they come, a filter, why, the palette, and an end that leaves the terminal clean.
#[test]
fn ui_shows_rows_and_obeys_keys() {
    let server = Server::start();
    let k = &Kubectl::new(&server, Path::new(MINIK8S), "ui");
    k.run("create configmap first");
    k.run("run waits --image=minik8s.io/none:1");
    // A controller makes the third of three.
    k.until("get configmap kube-root-ca.crt");
    let mut ui = Typed::start(k, "ui configmaps");
    ui.until("configmaps");
    ui.until("first");
    k.run("create configmap second");
    ui.until("second");
    ui.keys("/firs\r");
    ui.until("1/3");
    ui.keys("y");
    ui.until("$ minik8s get configmaps first -o yaml");
    ui.until("kind: ConfigMap");
    ui.keys("\x1b");
    ui.keys(":po\r");
    ui.until("waits");
    ui.keys("w");
    ui.until("the cluster has no nodes");
    ui.keys("q");
    ui.keys("?");
    ui.until("ctrl-d delete");
    ui.keys("x");
    ui.keys(":nonsense\r");
    ui.until("there is no such kind");
    ui.keys("q");
    let (shown, code) = ui.end();
    assert_eq!(code, 0, "{shown:?}");
    assert!(shown.trim_end().ends_with("\u{1b}[?1049l"), "the screen is as it was: {shown:?}");
    let piped = k.output("ui", "");
    assert!(piped.code != 0 && format!("{piped:?}").contains("is for terminals"), "{piped:?}");
}

/// A command on a terminal that somebody types at.
struct Typed {
    terminal: Terminal,
}

impl Typed {
    fn start(k: &Kubectl, command: &str) -> Typed {
        let line = format!(
            "stty rows 24 cols 100; exec {MINIK8S} --kubeconfig {} -n {} {command}",
            k.kubeconfig().display(),
            k.namespace
        );
        let mut script = Command::new("script");
        script
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("HOME", k.dir())
            .env("LC_ALL", "C.UTF-8");
        let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script starts");
        Typed { terminal: Terminal { child, shown: String::new() } }
    }

    /// What is shown from now on until this is there; the next wait is for what comes after.
    fn until(&mut self, text: &str) {
        self.terminal.until(text);
        let end = self.terminal.shown.find(text).map_or(0, |at| at + text.len());
        self.terminal.shown.drain(..end);
    }

    fn keys(&mut self, keys: &str) {
        use std::io::Write;
        let input = self.terminal.child.stdin.as_mut().expect("a pipe");
        input.write_all(keys.as_bytes()).and_then(|()| input.flush()).expect("keys arrive");
        // An escape is a key of its own only if nothing follows it before it is read.
        std::thread::sleep(Duration::from_secs(if keys.starts_with('\x1b') { 3 } else { 0 }));
    }

    fn end(self) -> (String, i32) {
        self.terminal.end()
    }
}
