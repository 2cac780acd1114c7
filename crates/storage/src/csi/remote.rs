//! A call of a driver's controller service, through the agent of a node.

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use minik8s_csi::{CODE_HEADER, Call, Code};
use prost::Message;
use serde_json::Value;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum RemoteError {
    #[error(
        "the driver {0} is registered on no node that is ready: is its node plugin running? (kubectl get csinodes)"
    )]
    Nowhere(String),
    /// The driver's own word.
    #[error("{message}")]
    Refused { code: Option<Code>, message: String },
    #[error("the driver's answer is not understood: {0}")]
    Answer(String),
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Write(#[from] minik8s_runtime::Error),
    #[error("the driver {driver} is not on node {node}, which the scheduler chose")]
    WrongNode { driver: String, node: String },
    #[error("{0}")]
    Wish(String),
}

impl RemoteError {
    pub fn code(&self) -> Option<Code> {
        match self {
            RemoteError::Refused { code, .. } => *code,
            _ => None,
        }
    }

    /// Whether the scheduler must choose another node.
    pub fn is_of_the_node(&self) -> bool {
        matches!(self, RemoteError::WrongNode { .. }) || self.code() == Some(Code::RESOURCE_EXHAUSTED)
    }

    /// Whether a call that failed like this has left nothing behind. Unless the driver says so, nobody knows.
    pub fn is_final(&self) -> bool {
        let is_final = |code: Code| {
            matches!(
                code,
                Code::INVALID_ARGUMENT | Code::NOT_FOUND | Code::ALREADY_EXISTS | Code::UNIMPLEMENTED
            )
        };
        self.code().is_some_and(is_final)
    }
}

/// A driver by its name and the nodes where it can be asked, the best one first.
pub struct Remote {
    pub client: Client,
    pub driver: String,
    pub nodes: Vec<String>,
}

impl Remote {
    pub async fn call<C: Call>(&self, call: &C) -> Result<C::Answer, RemoteError> {
        let node = self.nodes.first().ok_or_else(|| RemoteError::Nowhere(self.driver.clone()))?;
        let path = format!("/api/v1/nodes/{node}/proxy/csi/{}/{}", self.driver, C::METHOD);
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("content-type", "application/octet-stream")
            .body(Body::from(call.encode_to_vec()))
            .map_err(|error| RemoteError::Answer(error.to_string()))?;
        let response = self.client.send(request).await?;
        let code =
            response.headers().get(CODE_HEADER).and_then(|code| code.to_str().ok()?.parse().ok()).map(Code);
        let is_done = response.status().is_success();
        let body = response.into_body().collect_bytes().await?;
        if is_done {
            return C::Answer::decode(body).map_err(|error| RemoteError::Answer(error.to_string()));
        }
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = status["message"].as_str().unwrap_or("the node gave no reason").to_owned();
        Err(RemoteError::Refused { code, message })
    }
}
