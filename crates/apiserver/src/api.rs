//! The API as one function from request to answer: over TLS for the world, in process for ourselves.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, Response};
use minik8s_metrics::{Decisions, History};

use crate::answer::{self, Body};
use crate::authenticator::{Authenticator, LocalUser};
use crate::authorizer::Authorizer;
use crate::dispatch::{Incoming, is_long_running};
use crate::error::{ApiError, Result};
use crate::flow::InFlight;
use crate::health;
use crate::metrics::Metrics;
use crate::node_proxy::NodeProxy;
use crate::registry::Registry;
use crate::request::{Query, RequestInfo};

/// A request that is neither a watch nor a stream may take this long.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Api {
    pub registry: Registry,
    pub authenticator: Authenticator,
    pub authorizer: Arc<Authorizer>,
    pub in_flight: InFlight,
    pub metrics: Metrics,
    pub node_proxy: NodeProxy,
    /// What nodes and pods use, as collected by others.
    pub figures: Arc<History>,
    /// What autoscalers last went by.
    pub decisions: Arc<Decisions>,
    /// Set once the first objects are there.
    pub bootstrapped: AtomicBool,
}

impl Api {
    pub fn is_bootstrapped(&self) -> bool {
        self.bootstrapped.load(Ordering::Acquire)
    }

    /// Answers any request; never fails and never panics.
    pub async fn handle<B>(self: Arc<Self>, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = Instant::now();
        let query = Query::parse(request.uri().query());
        let info = RequestInfo::parse(request.method(), request.uri().path(), &query);
        let snapshot = self.registry.catalog.snapshot();
        let served = snapshot.find(&info.group, &info.version, &info.resource);
        let labels = self.metrics.labels(&info, served.map(|served| served.resource()));
        let answered = AssertUnwindSafe(self.limited(request, info, query)).catch_unwind().await;
        let response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                if error.code >= 500 {
                    tracing::warn!(code = error.code, %error, "request failed");
                }
                answer::error(&error)
            }
            Err(_) => {
                answer::error(&ApiError::internal("the request handler panicked; see the server's log"))
            }
        };
        self.metrics.observe(labels, response.status().as_u16(), started.elapsed());
        response
    }

    async fn limited<B>(
        self: &Arc<Self>,
        request: Request<B>,
        info: RequestInfo,
        query: Query,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if is_long_running(request.method(), &info) {
            return self.checked(request, info, query).await;
        }
        // A flood from outside must neither stop the control plane nor make probes restart it.
        let exempt = request.extensions().get::<LocalUser>().is_some() || health::is_probe(&info);
        let _place = if exempt { None } else { Some(self.in_flight.enter(request.method())?) };
        match tokio::time::timeout(TIMEOUT, self.checked(request, info, query)).await {
            Ok(answered) => answered,
            Err(_) => Err(ApiError::timeout("request did not complete within the allotted time")),
        }
    }

    /// Who is it, and may they?
    async fn checked<B>(
        self: &Arc<Self>,
        mut request: Request<B>,
        info: RequestInfo,
        query: Query,
    ) -> Result<Response<Body>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let user = self.authenticator.authenticate(&self.registry, &mut request).await?;
        let user = self.authorizer.impersonate(user, request.headers())?;
        let snapshot = self.registry.catalog.snapshot();
        self.authorizer.check(&snapshot, &user, &info, &query).await?;
        self.dispatch(Incoming { request, info, query, user }).await
    }
}
