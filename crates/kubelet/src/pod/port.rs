//! A pod's port of the node's bridge, told to the network before anything of the pod runs: from then on the port takes
//! packets with the pod's own addresses alone, and NetworkPolicies about the pod are in force.
//!
//! A node whose kernel cannot do that runs pods all the same, and says so.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::context::NodeContext;

const BOUND: Duration = Duration::from_secs(5);

/// Returns when the port is guarded, or why it is not. Pods of the host's network have none. `starting` is the namespace and
/// name of a pod that waits for it.
pub async fn guard(
    context: &NodeContext,
    sandbox_id: &str,
    starting: Option<(String, String)>,
) -> Result<(), String> {
    let Some(guards) = &context.config.port_guards else { return Ok(()) };
    let port = context.runtime.port(sandbox_id).await.map_err(|error| error.to_string())?;
    let Some(port) = port else { return Ok(()) };
    let (done, guarded) = oneshot::channel();
    guards.send((starting, port, done)).await.map_err(|_| "the network has ended".to_owned())?;
    match timeout(BOUND, guarded).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err("the network has ended".to_owned()),
        Err(_) => Err(format!("the network does not answer within {BOUND:?}")),
    }
}
