//! A cluster of one node that tests share, each in a namespace of its own.

use std::path::PathBuf;
use std::sync::Arc;

use super::Cluster;
use super::builder::show_log;
use crate::harness::program::Program;
use crate::harness::shared::Shared;

pub const SHARED: Shared = Shared {
    name: "node",
    make: |keeper| {
        Cluster::builder().run(move |cluster| {
            keeper.keep(&[&[cluster.dir.display().to_string()][..], &cluster.server.arguments].concat());
        });
    },
};

/// Runs a test on the shared cluster.
pub fn run(test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    let (_user, mut lines) = SHARED.enter();
    let dir = PathBuf::from(lines.remove(0));
    let server = Program::new("server", &dir.join("log"), lines);
    let cluster = Cluster { node_dir: dir.clone(), dir, server: server.clone(), agent: None };
    if let Err(panic) = std::thread::spawn(move || test(Arc::new(cluster))).join() {
        show_log(&server);
        std::panic::resume_unwind(panic);
    }
}
