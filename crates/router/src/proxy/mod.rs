//! The router as a user of the data path ([`minik8s_proxy`]): requests are led by host name and path.

mod function;
mod instance;
mod kept;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::HeaderValue;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use minik8s_proxy::gateway::{Treating, Treats, treat};
use minik8s_proxy::{Answering, Front, Refusal, RequestHead};
use tokio::sync::watch;

pub use minik8s_proxy::{Body, Client, RequestLimit, Timeouts};

use crate::gate::Gates;
use crate::invocation::Acceptor;
use crate::table::Route;
use crate::{Certificates, Table};

pub type Shared = minik8s_proxy::Shared<Hosts>;
pub type Worker = minik8s_proxy::Worker<Hosts>;

/// What the router has beside its table.
#[derive(Debug, Default)]
pub struct Hosts {
    pub certificates: watch::Sender<Arc<Certificates>>,
    pub gates: Gates,
    pub acceptor: Acceptor,
    pub treating: Treating,
}

impl Front for Hosts {
    type Table = Table;
    type Route = Route;

    const METRICS: (&'static str, &'static str) = ("minik8s_router", "host");
    const SAYS_FORWARDED: bool = true;

    fn find<'t>(table: &'t Table, client: &Client, head: &RequestHead<'_>) -> Result<&'t Route, Refusal> {
        find_route(table, client, head)
    }

    fn endpoints(table: &Table) -> HashSet<SocketAddr> {
        table.endpoints()
    }

    fn answer<'a>(
        worker: &'a Worker,
        route: &'a Route,
        host: HeaderValue,
        client: &'a Client,
        request: Request<Incoming>,
    ) -> Answering<'a> {
        let chosen = route.treatment.as_ref().and_then(|treatment| treatment.choice.as_ref());
        let route = chosen.map_or(route, |choice| choice.next());
        match &route.treatment {
            Some(treatment) => {
                let table = worker.shared.table.borrow().clone();
                let entrance = client.destination.and_then(|at| table.gateways.port(at.port()).cloned());
                let port = entrance.map(|port| port.number);
                Box::pin(treat(worker, (route, &**treatment), host, (client, port), request))
            }
            None => Box::pin(function::to_function(worker, route, host, client, request)),
        }
    }
}

impl Treats for Hosts {
    fn treating(&self) -> &Treating {
        &self.treating
    }
}

impl minik8s_proxy::Route for Route {
    fn label(&self) -> &Arc<str> {
        &self.host
    }

    fn service(&self) -> &str {
        &self.backend.service
    }

    fn endpoints(&self) -> Result<Arc<[SocketAddr]>, Refusal> {
        self.backend.endpoints.clone().map_err(|problem| {
            let text = problem.message(&self.backend.service, &self.backend.port);
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
        })
    }

    fn first(&self, client: &Client, turn: &AtomicUsize, count: usize) -> usize {
        if !self.backend.sticky {
            return turn.fetch_add(1, Ordering::Relaxed) % count;
        }
        let mut hasher = DefaultHasher::new();
        client.ip.hash(&mut hasher);
        usize::try_from(hasher.finish() % count as u64).unwrap_or_default()
    }

    fn prefix(&self) -> Option<&str> {
        self.strip.then_some(self.path.as_str())
    }

    fn rewrite<'a>(&self, path_and_query: &'a str) -> Cow<'a, str> {
        Route::rewrite(self, path_and_query)
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn answers_itself(&self) -> bool {
        self.function.is_some() || self.treatment.is_some()
    }
}

/// The route of a request, at one of the node's ports or a Gateway's.
fn find_route<'t>(table: &'t Table, client: &Client, head: &RequestHead<'_>) -> Result<&'t Route, Refusal> {
    let path = head.path();
    if has_dot_segment(path) {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "the path has the elements '.' or '..'"));
    }
    let name = plain_name(head.host);
    // Where a connection came in that was for one Gateway.
    if let Some(address) = client.destination {
        let gone = || Refusal::new(StatusCode::NOT_FOUND, "the Gateway has no such port any more");
        let port = table.gateways.port(address.port()).ok_or_else(gone)?;
        return port.find(&name, client.server_name.as_deref(), head);
    }
    table.find_at_node(client.protocol() == "https", &name, head).ok_or_else(|| {
        Refusal::new(StatusCode::NOT_FOUND, format!("nothing is routed at host {name}, path {path}"))
    })
}

/// Without port and last dot, in lower case.
fn plain_name(host: &str) -> Cow<'_, str> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|b| b.is_ascii_uppercase()) { name.to_ascii_lowercase().into() } else { name.into() }
}

/// Backends resolve them, so a path could lead out of what its prefix allows. Clients resolve them before they ask. Some
/// backends do so after they have decoded slashes, take a backslash for one, or cut off parameters (`..;x`).
fn has_dot_segment(path: &str) -> bool {
    if !path.contains("/.") && !path.contains(['%', '\\']) {
        return false;
    }
    let mut plain = path.to_ascii_lowercase();
    for (code, meaning) in [("%2e", "."), ("%2f", "/"), ("%5c", "/"), ("\\", "/"), ("%3b", ";")] {
        plain = plain.replace(code, meaning);
    }
    plain.split('/').any(|element| matches!(element.split(';').next(), Some("." | "..")))
}

#[cfg(test)]
mod path_tests {
    use super::*;

    #[test]
    fn names() {
        for (host, name) in [
            ("a.b", "a.b"),
            ("A.b:80", "a.b"),
            ("a.b.", "a.b"),
            ("a.b.:8080", "a.b"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("a:b", "a:b"),
        ] {
            assert_eq!(plain_name(host), name, "{host}");
        }
    }

    #[test]
    fn dot_segments() {
        for (path, has) in [
            ("/a/b", false),
            ("/a/.well-known/x", false),
            ("/a/...", false),
            ("/a%20b", false),
            ("/a/../b", true),
            ("/a/.", true),
            ("/a/%2e%2E/b", true),
            ("/%2e", true),
            ("/.%2e/x", true),
            ("/a/..;/b", true),
            ("/a/..;x=1/b", true),
            ("/a/..%3bx/b", true),
            ("/a/.;", true),
            ("/a/..%2fb", true),
            ("/a%2F..%2Fb", true),
            ("/a%2f%2e%2e", true),
            ("/a/..\\b", true),
            ("/a/..%5Cb", true),
            ("/a%2fb", false),
            ("/a;x=../b", false),
            ("/a/..b;", false),
        ] {
            assert_eq!(has_dot_segment(path), has, "{path}");
        }
    }
}
