//! A front that leads nowhere, for tests of what comes before.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use http::header::HeaderValue;
use http::{Request, StatusCode};
use hyper::body::Incoming;

use crate::{Answering, Client, Front, Refusal, RequestHead, Route, Worker};

#[derive(Debug, Default)]
pub struct Nowhere;

pub struct NoRoute(Arc<str>);

impl Front for Nowhere {
    type Table = ();
    type Route = NoRoute;

    const METRICS: (&'static str, &'static str) = ("test", "label");
    const SAYS_FORWARDED: bool = true;

    fn find<'t>((): &'t (), _: &Client, _: &RequestHead<'_>) -> Result<&'t NoRoute, Refusal> {
        Err(Refusal::new(StatusCode::NOT_FOUND, "nowhere"))
    }

    fn endpoints((): &()) -> HashSet<SocketAddr> {
        HashSet::new()
    }

    fn answer<'a>(
        _: &'a Worker<Self>,
        _: &'a NoRoute,
        _: HeaderValue,
        _: &'a Client,
        _: Request<Incoming>,
    ) -> Answering<'a> {
        Box::pin(async { Err(Refusal::new(StatusCode::NOT_FOUND, "nowhere")) })
    }
}

impl Route for NoRoute {
    fn label(&self) -> &Arc<str> {
        &self.0
    }

    fn service(&self) -> &str {
        &self.0
    }

    fn endpoints(&self) -> Result<Arc<[SocketAddr]>, Refusal> {
        Err(Refusal::new(StatusCode::NOT_FOUND, "nowhere"))
    }

    fn first(&self, _: &Client, _: &AtomicUsize, _: usize) -> usize {
        0
    }
}
