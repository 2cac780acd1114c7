//! `…/metrics.k8s.io/…/pods/NAME/series` and `…/nodes/NAME/series`: the last hour as it is remembered, a minute of it by the
//! second. Read from memory when asked for; whoever wants to follow it asks for what came `since`.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Response, StatusCode};
use jiff::Timestamp;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, respond};
use minik8s_metrics::History;
use serde_json::{Value, json};

/// Of a pod's containers, or of a node where there is no namespace.
pub struct SeriesHandler(pub Arc<History>);

type Points = Vec<(Timestamp, Option<u64>, u64)>;

#[async_trait]
impl Handler for SeriesHandler {
    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
        let since = match since(&request.query) {
            Ok(since) => since,
            Err(why) => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 400,
                    "reason": "BadRequest", "message": why,
                });
                return respond(StatusCode::BAD_REQUEST, "application/json", status.to_string());
            }
        };
        let items: Vec<Value> = if request.namespace.is_empty() {
            vec![item("", self.0.node_points(&request.name), since)]
        } else {
            let containers = self.0.containers(&request.namespace, &request.name).into_iter();
            containers
                .map(|name| {
                    let points = self.0.points(&request.namespace, &request.name, &name);
                    item(&name, points, since)
                })
                .collect()
        };
        respond(StatusCode::OK, "application/json", json!({"items": items}).to_string())
    }
}

/// Milliseconds since 1970, as `since=…` says.
fn since(query: &str) -> Result<i64, String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("since="));
    match value {
        None | Some("") => Ok(0),
        Some(text) => {
            text.parse().map_err(|_| format!("since: {text:?} is not a number of milliseconds since 1970"))
        }
    }
}

/// A name, and points of time (milliseconds), CPU (billionths of a core) and memory (bytes).
fn item(name: &str, points: Points, since: i64) -> Value {
    let new = points.into_iter().filter(|(at, _, _)| at.as_millisecond() > since);
    let points: Vec<Value> = new.map(|(at, cpu, memory)| json!([at.as_millisecond(), cpu, memory])).collect();
    json!({"name": name, "points": points})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_after_a_moment_are_told() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let points = vec![(at(1), None, 5), (at(2), Some(7), 6)];
        assert_eq!(
            item("web", points.clone(), 0),
            json!({"name": "web", "points": [[1000, null, 5], [2000, 7, 6]]})
        );
        assert_eq!(item("web", points, 1000)["points"], json!([[2000, 7, 6]]));
    }

    #[test]
    fn since_is_a_number() {
        assert_eq!(since(""), Ok(0));
        assert_eq!(since("a=b&since=12"), Ok(12));
        assert!(since("since=yesterday").unwrap_err().contains("yesterday"));
    }
}
