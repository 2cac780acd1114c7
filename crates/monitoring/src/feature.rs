//! The feature `monitoring`: the discovery page of the API server, the metrics APIs, the search in logs, and what is on nodes.
//!
//! It shows labels, annotations and addresses of all namespaces, so it is open only to those whom RBAC gives the path: the
//! group `system:monitoring`, and the account of the Prometheus that `minik8s monitoring enable` runs.

use std::sync::Arc;

use async_trait::async_trait;
use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use http::{Method, Response, StatusCode};
use jiff::Timestamp;
use minik8s_api::{
    Access, Body, Extension, Handler, HandlerRequest, Objects, ResourceRef, Route, Scope, respond,
};
use minik8s_feature::{Parts, ServerFeature};
use serde_json::Value;

use crate::discovery::{Kind, Lists, Objects as Found, Page, Pages, Role, Selection};
use crate::log_search::{self, LogSearch};
use crate::metrics_api::{self, LateClient, MetricsApi};
use crate::node_inventory::{self, NodeInventory};
use crate::{monitors, prometheus_rule};

/// Below it is a page per role: `/monitoring/discovery/pod`.
pub const DISCOVERY: &str = "/monitoring/discovery/";

/// Below it as well: what ServiceMonitors, PodMonitors and Probes select.
const MONITORS: &str = "monitors";

/// The feature `monitoring`.
#[derive(Default)]
pub struct Monitoring {
    /// Known once the API server runs.
    client: LateClient,
    pages: Arc<Pages>,
}

impl ServerFeature for Monitoring {
    fn name(&self) -> &'static str {
        "monitoring"
    }

    fn extension(&self) -> Extension {
        let handler = Arc::new(Discovery(self.pages.clone()));
        let route = Route { path: DISCOVERY, access: Access::Authorized, handler };
        let kinds = vec![
            monitors::service_monitor(),
            monitors::pod_monitor(),
            monitors::probe(),
            prometheus_rule::resource(),
        ];
        let metrics = metrics_api::PATHS.map(|path| Route {
            path,
            access: Access::Authorized,
            handler: Arc::new(MetricsApi(self.client.clone())),
        });
        let logs = Route {
            path: log_search::PATH,
            access: Access::Authorized,
            handler: Arc::new(LogSearch(self.client.clone())),
        };
        let nodes = Route {
            path: node_inventory::PATH,
            access: Access::Authorized,
            handler: Arc::new(NodeInventory(self.client.clone())),
        };
        Extension {
            routes: metrics.into_iter().chain([route, logs, nodes]).collect(),
            kinds,
            ..Extension::default()
        }
    }

    fn start(&self, parts: &mut Parts) {
        let _ = self.client.set(parts.client.clone());
        let (pages, stop) = (self.pages.clone(), parts.stop.clone());
        parts.task(async move { pages.forget_unused(stop).await });
        let (client, caches) = (parts.client.clone(), parts.caches.clone());
        parts.task(prometheus_rule::follow(client, caches, parts.leads.clone(), parts.stop.clone()));
    }
}

struct Discovery(Arc<Pages>);

#[async_trait]
impl Handler for Discovery {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "this is a page: GET it");
        }
        let name = request.path.strip_prefix(DISCOVERY).unwrap_or_default();
        if name == MONITORS {
            return match monitored(&request.query, cluster).await {
                Ok(page) => respond(StatusCode::OK, "application/json", page),
                Err((status, problem)) => refuse(status, &problem),
            };
        }
        let Some(role) = Role::parse(name) else {
            let text =
                format!("there is no role {name:?}; there are {}, {MONITORS}", Role::names().join(", "));
            return refuse(StatusCode::NOT_FOUND, &text);
        };
        let selection = match Selection::parse(&request.query) {
            Ok(selection) => selection,
            Err(problem) => return refuse(StatusCode::BAD_REQUEST, &problem),
        };
        match self.page(role, &selection, cluster).await {
            Ok(page) => answer(page, request.headers.get(IF_NONE_MATCH)),
            Err(problem) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &problem),
        }
    }
}

impl Discovery {
    async fn page(&self, role: Role, selection: &Selection, cluster: &dyn Objects) -> Result<Page, String> {
        let mut lists = Lists::default();
        for kind in role.needs() {
            let (group, version, plural) = kind.place();
            let stored = cluster.stored(&ResourceRef { group, version, plural }).await;
            lists.put(*kind, stored.map_err(|error| format!("{plural} cannot be read: {error}"))?);
        }
        self.0.page(role, &lists, selection).map_err(|error| error.to_string())
    }
}

/// Nothing but the tag, where the client has the page already.
fn answer(page: Page, known: Option<&HeaderValue>) -> Response<Body> {
    let mut response = match known {
        Some(known) if known.as_bytes() == page.tag.as_bytes() => {
            respond(StatusCode::NOT_MODIFIED, "application/json", "")
        }
        _ => respond(StatusCode::OK, "application/json", page.json),
    };
    // It is made of digits.
    if let Ok(tag) = HeaderValue::from_str(&page.tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// The targets of all ServiceMonitors, PodMonitors and Probes.
async fn monitored(query: &str, cluster: &dyn Objects) -> Result<Vec<u8>, (StatusCode, String)> {
    let honor = match query {
        "" | "honorLabels=false" => false,
        "honorLabels=true" => true,
        other => return Err((StatusCode::BAD_REQUEST, format!("{other}: use honorLabels=true"))),
    };
    let broken = |problem| (StatusCode::INTERNAL_SERVER_ERROR, problem);
    let mut all: [Vec<Value>; 3] = Default::default();
    for (at, place) in monitors::MONITOR_KINDS.into_iter().enumerate() {
        all[at] = read_place(place, cluster).await.map_err(broken)?;
    }
    let mut found = Found::default();
    for kind in monitors::needs(&all) {
        found.put(kind, read(kind, cluster).await.map_err(broken)?);
    }
    Ok(monitors::page(&all, &found, honor))
}

async fn read(kind: Kind, cluster: &dyn Objects) -> Result<Vec<Value>, String> {
    read_place(kind.place(), cluster).await
}

async fn read_place(
    (group, version, plural): (&str, &str, &str),
    cluster: &dyn Objects,
) -> Result<Vec<Value>, String> {
    let resource = ResourceRef { group, version, plural };
    cluster
        .read(&resource, Scope { namespace: "", name: None, now: Timestamp::now() })
        .await
        .map_err(|error| format!("{plural} cannot be read: {error}"))
}

/// Prometheus logs the answer's text.
fn refuse(status: StatusCode, text: &str) -> Response<Body> {
    respond(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::OnceLock;
    use std::task::{Context, Poll, Waker};

    use minik8s_api::{ReadError, Stored};

    use super::*;

    static DISCOVERED: OnceLock<Discovery> = OnceLock::new();

    /// A cluster in which nothing waits.
    struct Fixed(Result<Value, &'static str>);

    #[async_trait]
    impl Objects for Fixed {
        async fn read(&self, resource: &ResourceRef<'_>, _: Scope<'_>) -> Result<Vec<Value>, ReadError> {
            let objects = self.0.as_ref().map_err(|error| ReadError((*error).to_owned()))?;
            Ok(objects[resource.plural].as_array().cloned().unwrap_or_default())
        }

        async fn stored(&self, _: &ResourceRef<'_>) -> Result<Stored, ReadError> {
            let stored = self.0.as_ref().map(|_| Stored::default());
            stored.map_err(|error| ReadError((*error).to_owned()))
        }
    }

    fn ask(method: Method, url: &str, cluster: &Fixed) -> StatusCode {
        ask_with(method, url, None, cluster).status()
    }

    fn ask_with(method: Method, url: &str, tag: Option<&HeaderValue>, cluster: &Fixed) -> Response<Body> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let mut request = HandlerRequest {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            ..HandlerRequest::default()
        };
        request.headers.extend(tag.map(|tag| (IF_NONE_MATCH, tag.clone())));
        let discovery = DISCOVERED.get_or_init(|| Discovery(Arc::default()));
        let mut answer = pin!(discovery.handle(request, cluster));
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(response) => response,
            Poll::Pending => panic!("nothing waits"),
        }
    }

    #[test]
    fn discovery_answers_roles_and_refuses_the_rest_with_words() {
        let empty = Fixed(Ok(Value::Null));
        let check = |method, url: &str, want: u16| assert_eq!(ask(method, url, &empty), want, "{url}");
        for role in Role::names() {
            check(Method::GET, &format!("{DISCOVERY}{role}"), 200);
        }
        check(Method::GET, "/monitoring/discovery/pod?namespace=a&namespace=b", 200);
        check(Method::GET, "/monitoring/discovery/pod?labelSelector=a%3Db", 200);
        check(Method::GET, "/monitoring/discovery/pod?labelSelector=a%3D%3D%3Db", 400);
        check(Method::GET, "/monitoring/discovery/pod?namespaces=a", 400);
        check(Method::GET, "/monitoring/discovery/monitors", 200);
        check(Method::GET, "/monitoring/discovery/monitors?honorLabels=true", 200);
        check(Method::GET, "/monitoring/discovery/monitors?honorLabels=maybe", 400);
        check(Method::GET, "/monitoring/discovery/pods", 404);
        check(Method::GET, "/monitoring/discovery/", 404);
        check(Method::GET, "/monitoring/discovery/pod/x", 404);
        check(Method::POST, "/monitoring/discovery/pod", 405);
        let broken = Fixed(Err("the disk is gone"));
        assert_eq!(ask(Method::GET, "/monitoring/discovery/pod", &broken), 500, "never an empty list");
    }

    #[test]
    fn discovery_answers_not_modified_who_has_the_page() {
        let empty = Fixed(Ok(Value::Null));
        let ask =
            |tag: Option<&HeaderValue>| ask_with(Method::GET, "/monitoring/discovery/node", tag, &empty);
        let first = ask(None);
        let tag = first.headers()[ETAG].clone();
        assert_eq!((first.status(), ask(Some(&tag)).status()), (StatusCode::OK, StatusCode::NOT_MODIFIED));
        assert_eq!(ask(Some(&HeaderValue::from_static("\"0\""))).status(), StatusCode::OK);
    }

    #[test]
    fn discovery_is_for_those_whom_rbac_allows() {
        let routes = Monitoring::default().extension().routes;
        assert!(routes.iter().all(|route| route.access == Access::Authorized));
    }
}
