//! Who says where requests lead. The data path asks, and knows nothing of hosts, Services or virtual addresses itself.

use std::borrow::Cow;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::header::HeaderValue;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;

use crate::{Body, Client, Refusal, Retry, Secured, Worker};

/// The answer of a route that is not simply one of endpoints.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response<Body>, Refusal>> + Send + 'a>>;

/// A user of the data path: the router of a node, a pod's sidecar.
pub trait Front: Sized + Default + Send + Sync + 'static {
    /// Everything it knows at one time, replaced as a whole.
    type Table: Default + Send + Sync;
    type Route: Route;

    /// Whether requests without a trace get one (W3C `traceparent`).
    const TRACES: bool = false;

    /// What names of metrics begin with, and the label that has [`Route::label`].
    const METRICS: (&'static str, &'static str);
    /// Whether backends are told by headers where requests come from, and clients' own words about it dropped.
    const SAYS_FORWARDED: bool;

    fn find<'t>(
        table: &'t Self::Table,
        client: &Client,
        head: &RequestHead<'_>,
    ) -> Result<&'t Self::Route, Refusal>;

    /// Every endpoint that gets requests: connections to others are of no more use.
    fn endpoints(table: &Self::Table) -> HashSet<SocketAddr>;

    /// How that endpoint is to be spoken to.
    fn secured(_: &Self::Table, _: SocketAddr) -> Secured {
        None
    }

    /// Answers requests of routes that [answer themselves](Route::answers_itself).
    fn answer<'a>(
        worker: &'a Worker<Self>,
        route: &'a Self::Route,
        host: HeaderValue,
        client: &'a Client,
        request: Request<Incoming>,
    ) -> Answering<'a>;
}

/// Where some requests lead.
pub trait Route: Send + Sync {
    /// What its requests are counted under.
    fn label(&self) -> &Arc<str>;

    /// The Service whose endpoints these are, for people.
    fn service(&self) -> &str;

    /// The endpoints in the order in which they are tried. One that is there several times gets several turns.
    fn endpoints(&self) -> Result<Arc<[SocketAddr]>, Refusal>;

    /// The same for a client whose own destination matters.
    fn endpoints_for(&self, _: &Client) -> Result<Arc<[SocketAddr]>, Refusal> {
        self.endpoints()
    }

    /// Which of them is tried first. `turn` counts the worker's requests, for routes that do not count their own.
    fn first(&self, client: &Client, turn: &AtomicUsize, count: usize) -> usize;

    /// The beginning of the path that the backend does not see.
    fn prefix(&self) -> Option<&str> {
        None
    }

    /// Path and query as the backend gets them.
    fn rewrite<'a>(&self, path_and_query: &'a str) -> Cow<'a, str> {
        path_and_query.into()
    }

    /// How long to wait for the head of the answer, where that is not as usual.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether failed requests are sent again.
    fn retry(&self) -> Option<&Retry> {
        None
    }

    /// How long this request is held back.
    fn delay(&self) -> Option<Duration> {
        None
    }

    /// Who gets a copy of this request.
    fn mirror(&self) -> Option<SocketAddr> {
        None
    }

    /// What of users' objects leads its requests, for people; with the endpoint that one of them went to.
    fn rule(&self, _: Option<SocketAddr>) -> Option<String> {
        None
    }

    /// Hears how an endpoint did.
    fn outcome(&self, _: SocketAddr, _failed: bool) {}

    /// Its requests are for [`Front::answer`]: they may have to wait, or to be sent again.
    fn answers_itself(&self) -> bool {
        false
    }
}

/// What a route is chosen by.
pub struct RequestHead<'a> {
    pub method: &'a str,
    /// As the client wrote it.
    pub host: &'a str,
    /// Path and query.
    pub target: &'a str,
    pub headers: &'a dyn Headers,
}

impl RequestHead<'_> {
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or(self.target)
    }
}

/// Headers as one of the two ways has them.
pub trait Headers {
    /// The first value of a header.
    fn get(&self, name: &str) -> Option<&[u8]>;
}

impl Headers for HeaderMap {
    fn get(&self, name: &str) -> Option<&[u8]> {
        HeaderMap::get(self, name).map(HeaderValue::as_bytes)
    }
}

impl Headers for &[httparse::Header<'_>] {
    fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    }
}
