//! `GET …/functions/NAME/calls`: the last calls of a function on all nodes, told to those who may get `functions/calls` in
//! its namespace and need not be let at nodes.
//!
//! Routers remember a few calls each, in memory. They are read when somebody asks: of the nodes that have told of requests
//! for this function, and of no others. While nobody asks, nothing is sent; nothing is kept here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use http::{Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, ReadError, ResourceRef, Scope, respond};
use minik8s_meta::function::NUMBER_ANNOTATION;
use minik8s_meta::function_call::{FunctionCall, FunctionCallList, KEPT_CALLS, NODE_PATH};
use serde_json::{Value, json};

use crate::revision::config_map_name;

const FUNCTIONS: ResourceRef<'_> = ResourceRef { group: "minik8s.io", version: "v1", plural: "functions" };
const DEMANDS: ResourceRef<'_> =
    ResourceRef { group: "internal.minik8s.io", version: "v1", plural: "functiondemands" };
const CONFIG_MAPS: ResourceRef<'_> = ResourceRef { group: "", version: "v1", plural: "configmaps" };

/// A node that takes longer is left out.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Nodes that are asked at once.
const AT_ONCE: usize = 16;
/// Calls that are told, of all nodes together.
const MOST: usize = 100;

/// The client by which nodes are asked, once the server runs.
pub type LateClient = Arc<OnceLock<Client>>;

pub struct CallsHandler(pub LateClient);

/// Why there is no answer.
enum Refused {
    NoFunction,
    Starting,
    Read(ReadError),
}

#[async_trait]
impl Handler for CallsHandler {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        let told = self.calls(&request.namespace, &request.name, cluster).await;
        let (code, reason, message) = match told {
            Ok(calls) => {
                return respond(StatusCode::OK, "application/json", json!(calls).to_string());
            }
            Err(Refused::NoFunction) => {
                let message = format!("functions.minik8s.io {:?} not found", request.name);
                (StatusCode::NOT_FOUND, "NotFound", message)
            }
            Err(Refused::Starting) => {
                let message = "this server is only starting".to_owned();
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            }
            Err(Refused::Read(error)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", error.to_string())
            }
        };
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": code.as_u16(), "reason": reason, "message": message,
        });
        respond(code, "application/json", status.to_string())
    }
}

impl CallsHandler {
    async fn calls(
        &self,
        namespace: &str,
        function: &str,
        cluster: &dyn Objects,
    ) -> Result<FunctionCallList, Refused> {
        let found =
            cluster.read(&FUNCTIONS, scope(namespace, Some(function))).await.map_err(Refused::Read)?;
        if found.is_empty() {
            return Err(Refused::NoFunction);
        }
        let client = self.0.get().ok_or(Refused::Starting)?;
        let demands = cluster.read(&DEMANDS, scope(namespace, None)).await.map_err(Refused::Read)?;
        let nodes = nodes_of(&demands, function);
        let asked = nodes.into_iter().map(|node| async {
            let told = ask(client, &node, namespace, function).await;
            (node, told)
        });
        let mut answers: Vec<_> = futures::stream::iter(asked).buffer_unordered(AT_ONCE).collect().await;
        answers.sort_by(|a, b| a.0.cmp(&b.0));
        let mut calls = merge(answers);
        let hashes: BTreeSet<&str> = calls.items.iter().map(|call| call.revision_hash.as_str()).collect();
        let mut numbers = BTreeMap::new();
        for hash in hashes.into_iter().filter(|hash| !hash.is_empty()) {
            let name = config_map_name(function, hash);
            let maps = cluster.read(&CONFIG_MAPS, scope(namespace, Some(&name))).await;
            let maps = maps.map_err(Refused::Read)?;
            let number = maps.first().and_then(number_of);
            numbers.insert(hash.to_owned(), number.unwrap_or_default());
        }
        for call in &mut calls.items {
            call.revision = numbers.get(&call.revision_hash).copied().unwrap_or_default();
        }
        Ok(calls)
    }
}

fn scope<'a>(namespace: &'a str, name: Option<&'a str>) -> Scope<'a> {
    Scope { namespace, name, now: Timestamp::now() }
}

/// The nodes whose routers had requests for the function: demands are called FUNCTION.NODE.
fn nodes_of(demands: &[Value], function: &str) -> BTreeSet<String> {
    let names = demands.iter().filter_map(|demand| demand["metadata"]["name"].as_str()?.split_once('.'));
    names.filter(|(of, _)| *of == function).map(|(_, node)| node.to_owned()).collect()
}

/// `None`: it did not answer in time. A node that knows no such path has nothing to tell.
async fn ask(client: &Client, node: &str, namespace: &str, function: &str) -> Option<Vec<FunctionCall>> {
    let path = format!("/api/v1/nodes/{node}/proxy/{NODE_PATH}/{namespace}/{function}");
    let request = http::Request::get(path).body(Vec::new()).ok()?;
    match tokio::time::timeout(TIMEOUT, client.request::<FunctionCallList>(request)).await {
        Ok(Ok(list)) => Some(list.items),
        // A node that has gone for good answers so, too: its calls went with it.
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Some(Vec::new()),
        Ok(Err(error)) => {
            tracing::debug!(%error, node, "a node does not tell the calls of a function");
            None
        }
        Err(_) => None,
    }
}

/// Pure. Which node it was is for the server to say, and how much a node may tell.
fn merge(answers: Vec<(String, Option<Vec<FunctionCall>>)>) -> FunctionCallList {
    let mut list = FunctionCallList::default();
    for (node, calls) in answers {
        let Some(calls) = calls else {
            list.unreachable.push(node);
            continue;
        };
        let told = calls.into_iter().take(KEPT_CALLS);
        list.items.extend(told.map(|call| FunctionCall { node: node.clone(), revision: 0, ..call }));
    }
    list.items.sort_by_key(|call| std::cmp::Reverse(call.at.0));
    list.items.truncate(MOST);
    list
}

fn number_of(map: &Value) -> Option<i64> {
    map["metadata"]["annotations"][NUMBER_ANNOTATION].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use minik8s_api::Stored;

    use super::*;

    fn call(second: i64, node: &str) -> FunctionCall {
        FunctionCall {
            at: MicroTime(Timestamp::from_second(second).unwrap()),
            method: "GET".to_owned(),
            status: 200,
            cold: false,
            milliseconds: 2.5,
            waited_milliseconds: 0.1,
            revision: 9,
            revision_hash: "abc".to_owned(),
            pod: "f-1".to_owned(),
            node: node.to_owned(),
        }
    }

    #[test]
    fn calls_of_all_nodes_are_told_newest_first_and_bounded() {
        let answers = vec![
            ("n1".to_owned(), Some(vec![call(30, "n2"), call(10, "")])),
            ("n2".to_owned(), Some(vec![call(20, "")])),
            ("n3".to_owned(), None),
        ];
        let list = merge(answers);
        let told: Vec<_> = list.items.iter().map(|one| (one.at.0.as_second(), one.node.as_str())).collect();
        assert_eq!(told, [(30, "n1"), (20, "n2"), (10, "n1")], "no node speaks for another");
        assert!(list.items.iter().all(|one| one.revision == 0), "nor numbers revisions");
        assert_eq!(list.unreachable, ["n3"]);
        let flood = |node: &str| (node.to_owned(), Some(vec![call(1, ""); 5000]));
        assert_eq!(merge(vec![flood("n1")]).items.len(), KEPT_CALLS);
        let nodes = ["n1", "n2", "n3", "n4", "n5"].map(flood);
        assert_eq!(merge(nodes.into()).items.len(), MOST);
    }

    #[test]
    fn nodes_are_those_that_told_of_requests_for_this_function() {
        let named = |name: &str| json!({"metadata": {"name": name}});
        let demands = [named("f.n1"), named("f.rack.n2"), named("ff.n3"), named("f"), json!({})];
        let nodes: Vec<String> = nodes_of(&demands, "f").into_iter().collect();
        assert_eq!(nodes, ["n1", "rack.n2"]);
    }

    /// A cluster with one function, which nobody has called.
    struct Quiet;

    #[async_trait]
    impl Objects for Quiet {
        async fn read(&self, resource: &ResourceRef<'_>, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
            let is_there = resource.plural == "functions" && scope.name == Some("quiet");
            Ok(if is_there { vec![json!({})] } else { Vec::new() })
        }

        async fn stored(&self, _resource: &ResourceRef<'_>) -> Result<Stored, ReadError> {
            Err(ReadError("not asked for".to_owned()))
        }
    }

    #[tokio::test]
    async fn function_must_be_there_and_the_server_too() {
        let handler = CallsHandler(LateClient::default());
        let ask = |name: &str| HandlerRequest { name: name.to_owned(), ..HandlerRequest::default() };
        assert_eq!(handler.handle(ask("gone"), &Quiet).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(handler.handle(ask("quiet"), &Quiet).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let _ = handler.0.set(Client::try_from(config).unwrap());
        let answer = handler.handle(ask("quiet"), &Quiet).await;
        assert_eq!(answer.status(), StatusCode::OK, "and nobody was asked");
    }
}
