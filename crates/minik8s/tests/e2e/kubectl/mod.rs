//! The real kubectl, in every version this machine has.
//!
//! Every version goes through the long script ([`script`]), side by side against one server. The cases
//! go into detail; each is a server of its own, on which the oldest and the newest kubectl play every case
//! in a namespace made for it; so does our own program, through a link named kubectl. What is checked is what
//! people and scripts look at: exit codes, the words that are printed, and the objects that result.

mod apply;
mod authority;
mod change;
mod create;
mod custom;
mod delete;
mod describe;
mod discover;
mod explain;
mod get;
mod limits;
mod nodes;
mod patch;
mod pods;
mod protobuf;
mod proxy;
mod same;
mod script;
mod server_side_apply;
mod sets;
mod terminal;
mod validate;

use std::time::{Duration, Instant};

use crate::harness::{Kubectl, Output, Server, installed, ours};

/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

type Case = fn(&Kubectl);

/// The test of a case, given its cases. Our own program plays them too, unless they are about what only
/// kubectl has.
macro_rules! case {
    (only kubectl: $($case:ident),+) => {
        #[test]
        fn case() {
            $crate::kubectl::play(&[$((stringify!($case), $case)),+], false);
        }
    };
    ($($case:ident),+) => {
        #[test]
        fn case() {
            $crate::kubectl::play(&[$((stringify!($case), $case)),+], true);
        }
    };
}
use case;

fn play(cases: &[(&str, Case)], ours_too: bool) {
    let server = Server::start();
    let versions = installed();
    let mut chosen = vec![versions.first().cloned(), versions.last().cloned()];
    chosen.dedup();
    chosen.push(ours_too.then(|| ours(&server)));
    for program in chosen.into_iter().flatten() {
        for (name, case) in cases {
            eprintln!("--- {name} with {}", program.display());
            case(&Kubectl::new(&server, &program, name));
        }
    }
}

/// Runs a command until it fails: what is served hears of the end of a kind a moment after whoever asked for it.
#[track_caller]
fn until_fails(k: &Kubectl, command: &str) -> Output {
    until(|| k.output(command, ""), |output| output.code != 0)
}

/// Runs a command until it succeeds, each time with the same input.
#[track_caller]
fn until_succeeds(k: &Kubectl, input: &str, command: &str) -> Output {
    until(|| k.output(command, input), |output| output.code == 0)
}

#[track_caller]
fn until(run: impl Fn() -> Output, is_wanted: impl Fn(&Output) -> bool) -> Output {
    let begun = Instant::now();
    loop {
        let output = run();
        if is_wanted(&output) {
            return output;
        }
        assert!(begun.elapsed() < TIMEOUT, "{output:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A Deployment that several cases begin with.
const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, labels: {app: app, tier: front}}
spec:
  replicas: 0
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - name: main
        image: nginx:1
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
        ports: [{containerPort: 80}, {containerPort: 443, name: https}]
      - name: side
        image: busybox:1
"#;
