//! How shared storage is set up on this node: told (`PUT`) by the server, asked (`GET`) by people.

use std::sync::Arc;

use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use minik8s_meta::shared_storage::SharedStorage;
use minik8s_shared_storage::SharedStorageAgent;

use super::answer::{self, Body, Refusal};

/// No set-up is larger.
const MOST_BYTES: usize = 1 << 20;

pub async fn answer(
    shared: &Arc<SharedStorageAgent>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    match *request.method() {
        Method::GET => {}
        Method::PUT => {
            let body = Limited::new(request.into_body(), MOST_BYTES).collect().await;
            let body = body.map_err(|error| Refusal::bad_request(error.to_string()))?.to_bytes();
            let setup: Option<SharedStorage> =
                serde_json::from_slice(&body).map_err(|error| Refusal::bad_request(error.to_string()))?;
            let shared = shared.clone();
            let applied = tokio::task::spawn_blocking(move || shared.apply(setup)).await;
            applied.map_err(Refusal::internal)?.map_err(Refusal::internal)?;
        }
        _ => return Err(Refusal::bad_request("GET or PUT")),
    }
    let shared = shared.clone();
    let status = tokio::task::spawn_blocking(move || shared.status()).await;
    Ok(answer::json(&status.map_err(Refusal::internal)?))
}
