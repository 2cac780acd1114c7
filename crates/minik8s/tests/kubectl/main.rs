//! The real kubectl, in every version this machine has, against a server of its own.
//!
//! A test is a chapter of one long script. Each starts a server, and every kubectl works through the
//! chapter in a namespace of its own. What is checked is what people and scripts look at: exit codes, the
//! words that are printed, and the objects that result.

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
mod server_side_apply;
mod validate;

use harness::{Kubectl, Server};

/// Runs a chapter with each kubectl.
fn chapter(test: impl FnMut(&Kubectl)) {
    Kubectl::each(&Server::start(), test);
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
