//! Tasks that call a function: by its own ARN, as `function:NAME`, or by `lambda:invoke`.
//!
//! Where functions are and how they are reached is known in this file alone. A call that a dead server has made is first
//! looked for at the function's instances: they keep what they answered until it is acknowledged.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Node;
use minik8s_runtime::Caches;
use serde_json::Value;

use super::acknowledge::Acknowledgements;
use super::outgoing::{self, Answer, SendError, Target};
use super::{TaskError, TellInstance};
use crate::journal::Instance;

/// A function may take an hour, whatever the task's own timeout says before.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// A router that cannot be reached has seen nothing: it is tried again for so long. Where a server has just started
/// the router beside it may need a while.
const ROUTER_TIMEOUT: Duration = Duration::from_secs(60);
/// A router that has just started may not know every function yet.
const UNKNOWN_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(200);
/// Where a node says on which port its router listens.
const ROUTER_PORT: &str = "minik8s.io/http-port";
const RESULT_KEY: &str = "minik8s-result-key";
const KEPT_RESULT: &str = "minik8s-kept-result";
const NOT_EXECUTED: &str = "minik8s-not-executed";
/// Asks the router which instance it was, which it says in the two others.
const TELL: &str = "minik8s-tell";
const INSTANCE: &str = "minik8s-instance";
const START: &str = "minik8s-start";

/// One call of a function.
pub struct Call<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub payload: &'a Value,
    /// The same for every repetition of this call: the function sees it.
    pub key: String,
    /// Under which the instance keeps the answer until it is acknowledged.
    pub result_key: Option<&'a str>,
    /// A server that is no more may have made it.
    pub again: bool,
    /// Where the instance that answers is told.
    pub instance: &'a TellInstance,
}

/// Calls functions.
#[async_trait]
pub trait Invoker: Send + Sync {
    async fn invoke(&self, call: &Call<'_>) -> Result<Value, TaskError>;

    /// The result that was kept under this key may go.
    fn acknowledge(&self, namespace: &str, name: &str, result_key: &str);
}

/// Functions as the router of every node serves them: `/fn/NAMESPACE/NAME`.
pub struct HttpInvoker {
    caches: Arc<Caches>,
    acknowledgements: Acknowledgements,
}

impl HttpInvoker {
    pub fn new(caches: Arc<Caches>) -> Self {
        HttpInvoker { acknowledgements: Acknowledgements::new(caches.clone()), caches }
    }

    /// Sends a request that a router which cannot be reached has not seen.
    async fn send(&self, request: &Request<Bytes>) -> Result<Answer, TaskError> {
        let begun = Instant::now();
        loop {
            let problem = match router(&self.caches) {
                None => "no node is ready whose router could reach the function".to_owned(),
                Some(address) => match outgoing::send(Target { address, tls: None }, request.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(error @ (SendError::Connect(..) | SendError::Silent(_))) => error.to_string(),
                    Err(error) => {
                        return Err(TaskError::new("Lambda.SdkClientException", error.to_string()));
                    }
                },
            };
            if begun.elapsed() > ROUTER_TIMEOUT {
                return Err(TaskError::new("Lambda.ServiceException", problem));
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The answer of a call that a server before this one has made, if an instance has made it or is at it.
    async fn find(&self, call: &Call<'_>) -> Result<Option<Answer>, TaskError> {
        let begun = Instant::now();
        let request = call
            .result_key
            .and_then(|key| about(call.namespace, call.name, "find", key))
            .filter(|_| call.again);
        let Some(request) = request else { return Ok(None) };
        loop {
            let answer = self.send(&request).await?;
            if answer.headers.contains_key(NOT_EXECUTED) {
                return Ok(None);
            }
            if !answer.headers.contains_key("minik8s-kept") {
                // The router does not know the function, or cannot say.
                if begun.elapsed() > UNKNOWN_TIMEOUT {
                    return Ok(None);
                }
                tokio::time::sleep(RETRY).await;
                continue;
            }
            return Ok(Some(answer));
        }
    }

    async fn ask(&self, call: &Call<'_>) -> Result<Answer, TaskError> {
        if let Some(answer) = self.find(call).await? {
            return Ok(answer);
        }
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/fn/{}/{}", call.namespace, call.name))
            .header(HOST, format!("{}.{}.fn", call.name, call.namespace))
            .header(CONTENT_TYPE, "application/json")
            .header(TELL, "instance")
            .header("idempotency-key", &call.key);
        let request = match call.result_key {
            Some(key) => request.header(RESULT_KEY, key),
            None => request,
        };
        let request = request
            .body(Bytes::from(call.payload.to_string()))
            .map_err(|error| TaskError::new("Lambda.InvalidRequestContentException", error.to_string()))?;
        self.send(&request).await
    }
}

#[async_trait]
impl Invoker for HttpInvoker {
    async fn invoke(&self, call: &Call<'_>) -> Result<Value, TaskError> {
        let answer = tokio::time::timeout(TIMEOUT, self.ask(call)).await.map_err(|_| {
            TaskError::new("Sandbox.Timedout", "the function did not answer within an hour")
        })??;
        if let Some(instance) = instance_of(&answer.headers) {
            // Told once; an answer comes once.
            let _ = call.instance.set(instance);
        }
        result(call.name, answer.status, &answer.body)
    }

    fn acknowledge(&self, namespace: &str, name: &str, result_key: &str) {
        self.acknowledgements.add(namespace, name, result_key);
    }
}

/// A request about kept results, which executes nothing.
pub fn about(namespace: &str, name: &str, what: &str, keys: &str) -> Option<Request<Bytes>> {
    let request = Request::builder()
        .method(Method::OPTIONS)
        .uri(format!("/fn/{namespace}/{name}"))
        .header(HOST, format!("{name}.{namespace}.fn"))
        .header(TELL, "instance")
        .header(KEPT_RESULT, what)
        .header(RESULT_KEY, keys);
    request.body(Bytes::new()).ok()
}

/// The router of a node that is ready.
pub fn router(caches: &Caches) -> Option<SocketAddr> {
    caches.of::<Node>().list().iter().find_map(|node| router_of(node))
}

fn router_of(node: &Node) -> Option<SocketAddr> {
    let status = node.status.as_ref()?;
    let ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
    let address = status.addresses.iter().flatten().find(|address| address.type_ == "InternalIP")?;
    let address: IpAddr = address.address.parse().ok()?;
    let annotations = node.metadata.annotations.as_ref();
    let port =
        annotations.and_then(|all| all.get(ROUTER_PORT)).and_then(|port| port.parse().ok()).unwrap_or(80);
    // 0: it has none.
    (ready && port != 0).then(|| SocketAddr::new(address, port))
}

/// Who answered, as the router says it.
fn instance_of(headers: &HeaderMap) -> Option<Instance> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let cold = text(START).map(|start| start == "cold");
    text(INSTANCE).map(|pod| Instance { pod: pod.to_owned(), cold })
}

/// What an answer means to the state.
fn result(name: &str, status: StatusCode, body: &[u8]) -> Result<Value, TaskError> {
    let text = String::from_utf8_lossy(body).into_owned();
    let json: Option<Value> = serde_json::from_slice(body).ok();
    if status.is_success() {
        return Ok(match json {
            Some(value) => value,
            None if body.is_empty() => Value::Null,
            None => text.into(),
        });
    }
    let raised = json.as_ref().and_then(|value| value["errorType"].as_str());
    let error = match (status, raised) {
        (_, Some(raised)) => raised,
        (StatusCode::NOT_FOUND, _) => "Lambda.ResourceNotFoundException",
        (StatusCode::TOO_MANY_REQUESTS, _) => "Lambda.TooManyRequestsException",
        (StatusCode::GATEWAY_TIMEOUT, _) => "Sandbox.Timedout",
        (StatusCode::PAYLOAD_TOO_LARGE, _) => "Lambda.RequestTooLargeException",
        (status, _) if status.is_server_error() => "Lambda.ServiceException",
        _ => "Lambda.Unknown",
    };
    let cause = if text.is_empty() { format!("function {name} answered {status}") } else { text };
    Err(TaskError::new(error, cause))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn function_errors_have_the_names_that_catchers_know() {
        let check =
            |status: u16, body: &str| result("f", StatusCode::from_u16(status).unwrap(), body.as_bytes());
        assert_eq!(check(200, "{\"a\":1}"), Ok(json!({"a": 1})));
        assert_eq!(check(200, ""), Ok(Value::Null));
        assert_eq!(check(200, "plain"), Ok(json!("plain")));
        for (status, body, error) in [
            (500, "{\"errorType\": \"ValueError\", \"errorMessage\": \"bad\"}", "ValueError"),
            (404, "", "Lambda.ResourceNotFoundException"),
            (429, "later", "Lambda.TooManyRequestsException"),
            (503, "{\"reason\": \"Quota\"}", "Lambda.ServiceException"),
            (504, "", "Sandbox.Timedout"),
            (413, "", "Lambda.RequestTooLargeException"),
            (400, "", "Lambda.Unknown"),
        ] {
            assert_eq!(check(status, body).unwrap_err().error, error);
        }
    }

    #[test]
    fn instance_is_told_by_headers() {
        let mut headers = HeaderMap::new();
        assert_eq!(instance_of(&headers), None);
        headers.insert(INSTANCE, "f-1".parse().unwrap());
        assert_eq!(instance_of(&headers), Some(Instance { pod: "f-1".to_owned(), cold: None }));
        headers.insert(START, "cold".parse().unwrap());
        assert_eq!(instance_of(&headers), Some(Instance { pod: "f-1".to_owned(), cold: Some(true) }));
    }

    #[test]
    fn router_is_that_of_a_ready_node() {
        let node = |ready: &str| -> Node {
            serde_json::from_value(json!({
                "metadata": {"annotations": {ROUTER_PORT: "8080"}},
                "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
                           "conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap()
        };
        assert_eq!(router_of(&node("True")), Some("10.0.0.7:8080".parse().unwrap()));
        assert_eq!(router_of(&node("False")), None);
    }
}
