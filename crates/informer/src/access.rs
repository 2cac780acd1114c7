//! How the parts of one agent reach the cluster: the same client, caches and recorder for all of them.

use std::path::Path;
use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::{Caches, Kind, Recorder};

#[derive(Clone)]
pub struct ApiAccess {
    pub client: Client,
    pub caches: Arc<Caches>,
    pub recorder: Recorder,
}

impl ApiAccess {
    /// Until `stop`. Kinds of which the node's next run is to know when no server answers are kept below `dir`.
    pub fn of_node(client: Client, node: &str, stop: CancellationToken, dir: &Path, kinds: &[Kind]) -> Self {
        let recorder = Recorder::start_on(client.clone(), node);
        let caches = Caches::of_agent(client.clone(), recorder.clone(), stop, dir, kinds);
        ApiAccess { caches, recorder, client }
    }
}
