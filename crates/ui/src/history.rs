//! `/history`: when the cluster was at which resourceVersion, as far back as it can be read. Lists take such a version
//! (`resourceVersion=…&resourceVersionMatch=Exact`) with the reader's own rights; here are numbers only.

use async_trait::async_trait;
use http::{Method, Response, StatusCode};
use jiff::Timestamp;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, respond};
use serde_json::{Value, json};

pub const PATH: &str = "/history";

pub struct History;

#[async_trait]
impl Handler for History {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        if request.method != Method::GET {
            return respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "history can be read: GET it\n");
        }
        let told = told(&cluster.moments(), Timestamp::now());
        respond(StatusCode::OK, "application/json", told.to_string())
    }
}

/// Milliseconds since 1970 with the version as text, as versions are.
fn told(moments: &[(Timestamp, u64)], now: Timestamp) -> Value {
    let each = |(at, version): &(Timestamp, u64)| json!([at.as_millisecond(), version.to_string()]);
    json!({"now": now.as_millisecond(), "moments": moments.iter().map(each).collect::<Vec<Value>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_text() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let expected = json!({"now": 3000, "moments": [[1000, "7"], [2000, "9"]]});
        assert_eq!(told(&[(at(1), 7), (at(2), 9)], at(3)), expected);
    }
}
