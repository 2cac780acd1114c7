//! Paths and subresources that features answer themselves, once the request may be made.

use bytes::Bytes;
use http::Response;
use minik8s_api::{Body, Handler, HandlerRequest, Requester, Route};
use std::sync::Arc;

use crate::api::Api;
use crate::authenticator::Peer;
use crate::dispatch::Incoming;
use crate::error::Result;
use crate::request::RequestInfo;

impl Api {
    /// The route of a path, if a feature has it. One below `/apis/` is a whole API that is not of objects: what is below
    /// it is authorized as the resource that it reads as.
    pub(crate) fn route(&self, info: &RequestInfo) -> Option<&Route> {
        let fits = |route: &&Route| !info.is_resource || is_api(route);
        self.routes.iter().filter(fits).find(|route| route.matches(&info.path))
    }

    /// The same, where the path is of such an API.
    pub(crate) fn api_route(&self, info: &RequestInfo) -> Option<&Route> {
        self.route(info).filter(|route| is_api(route))
    }

    /// Whoever of a feature answers the request, if one does.
    pub(crate) fn handler(&self, info: &RequestInfo) -> Option<Arc<dyn Handler>> {
        if let Some(route) = self.route(info) {
            return Some(route.handler.clone());
        }
        if !info.is_resource {
            return None;
        }
        let snapshot = self.registry.catalog.snapshot();
        let served = snapshot.find(&info.group, &info.version, &info.resource)?;
        served.handler(&info.subresource).cloned()
    }
}

fn is_api(route: &Route) -> bool {
    route.path.starts_with("/apis/")
}

pub async fn answer<B>(api: &Api, handler: &dyn Handler, mut incoming: Incoming<B>) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let body = incoming.body().await?;
    let Incoming { request, info, user, .. } = incoming;
    let (parts, _) = request.into_parts();
    let certificate = parts.extensions.get::<Peer>().and_then(|Peer(named)| (**named).as_ref().ok());
    let request = HandlerRequest {
        method: parts.method,
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body,
        path: info.path,
        namespace: info.namespace,
        name: info.name,
        requester: Requester { name: user.name, groups: user.groups },
        expires: certificate.map(|named| named.until()),
    };
    Ok(handler.handle(request, &api.registry).await)
}
