//! `/meshTap/NAMESPACE/POD`: requests that pass the pod's proxy, a line each, for the API server alone, which has asked
//! whether its client may. What a tap may say and whom it waits for is the mesh's business.

use std::time::Duration;

use http::Response;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::answer::{self, Body, Refusal};
use crate::Config;
use crate::pod::DesiredPod;

/// Groups of lines that wait to be sent; the mesh drops what is more.
const WAITING: usize = 16;
/// For the agent of the mesh to begin.
const TIMEOUT: Duration = Duration::from_secs(10);

pub async fn answer(config: &Config, pod: &DesiredPod, query: &str) -> Result<Response<Body>, Refusal> {
    let taps = config.mesh_taps.as_ref();
    let taps = taps.ok_or_else(|| Refusal::not_found("this node has no mesh"))?;
    let (lines, chunks) = mpsc::channel(WAITING);
    let (done, begun) = oneshot::channel();
    let ended = || Refusal::internal("the agent of the mesh has ended");
    taps.send((pod.uid.clone(), query.to_owned(), lines, done)).await.map_err(|_| ended())?;
    match timeout(TIMEOUT, begun).await {
        Ok(Ok(Ok(()))) => Ok(answer::streamed(chunks)),
        Ok(Ok(Err(problem))) => Err(Refusal::bad_request(problem)),
        Ok(Err(_)) => Err(ended()),
        Err(_) => Err(Refusal::internal("the agent of the mesh does not answer")),
    }
}
