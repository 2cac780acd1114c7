//! Clusters of one node that tests share, each in a namespace of its own.

use std::path::PathBuf;
use std::sync::Arc;

use super::builder::show_log;
use super::{Cluster, load_image};
use crate::harness::program::Program;
use crate::harness::shared::{Keeper, Shared};

/// Of the cases of a node.
pub const SHARED: Shared =
    Shared { name: "node", make: |keeper| Cluster::builder().run(move |cluster| keep(&keeper, &cluster)) };

/// Of the examples, which have another image to make load with.
pub const EXAMPLES: Shared = Shared {
    name: "examples",
    make: |keeper| {
        Cluster::builder().run(move |cluster| {
            load_image(&cluster.dir, "load.tar", minik8s_kubelet::image::load().unwrap());
            keep(&keeper, &cluster);
        });
    },
};

fn keep(keeper: &Keeper, cluster: &Cluster) {
    keeper.keep(&[&[cluster.dir.display().to_string()][..], &cluster.server.arguments].concat());
}

/// Runs a test on the cluster of the cases.
pub fn run(test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    run_on(&SHARED, test);
}

pub fn run_on(shared: &Shared, test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    let (_user, mut lines) = shared.enter();
    let dir = PathBuf::from(lines.remove(0));
    let server = Program::new("server", &dir.join("log"), lines);
    let cluster = Cluster { node_dir: dir.clone(), dir, server: server.clone(), agent: None };
    if let Err(panic) = std::thread::spawn(move || test(Arc::new(cluster))).join() {
        show_log(&server);
        std::panic::resume_unwind(panic);
    }
}
