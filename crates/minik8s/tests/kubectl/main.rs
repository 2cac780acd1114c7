//! The real kubectl, in every version this machine has.
//!
//! Every version goes through the long script ([`script`]), side by side against one server. The chapters
//! go into detail; each is a server of its own, on which the oldest and the newest kubectl play every scene
//! in a namespace made for it; so does our own program, through a link named kubectl. What is checked is what
//! people and scripts look at: exit codes, the words that are printed, and the objects that result.

#[path = "../harness/mod.rs"]
mod harness;

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
mod terminal;
mod validate;

use harness::{Kubectl, Server, installed, ours};

type Scene = fn(&Kubectl);

/// The test of a chapter, given its scenes. Our own program plays them too, unless they are about what only
/// kubectl has.
macro_rules! chapter {
    (only kubectl: $($scene:ident),+) => {
        #[test]
        fn chapter() {
            $crate::play(&[$((stringify!($scene), $scene)),+], false);
        }
    };
    ($($scene:ident),+) => {
        #[test]
        fn chapter() {
            $crate::play(&[$((stringify!($scene), $scene)),+], true);
        }
    };
}
use chapter;

fn play(scenes: &[(&str, Scene)], ours_too: bool) {
    let server = Server::start();
    let versions = installed();
    let mut chosen = vec![versions.first().cloned(), versions.last().cloned()];
    chosen.dedup();
    chosen.push(ours_too.then(|| ours(&server)));
    for program in chosen.into_iter().flatten() {
        for (name, scene) in scenes {
            eprintln!("--- {name} with {}", program.display());
            scene(&Kubectl::new(&server, &program, name));
        }
    }
}

/// A Deployment that several chapters begin with.
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
