//! Requests of protocols that features speak: let through or refused here, answered there. Their bodies are passed on as
//! they come, and they hold no seat: a push of gigabytes must keep nobody from the API.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use minik8s_api::{Body, Protocol, Requester};
use minik8s_auth::User;

use crate::api::{Api, name_host};
use crate::audit::Trail;
use crate::authenticator::{Limits, LocalUser, Peer};
use crate::error::{ApiError, Result};
use crate::request::{Query, RequestInfo};
use crate::session_limits;

impl Api {
    /// The protocol that is spoken at a path, if one is.
    pub(crate) fn protocol(&self, path: &str) -> Option<Arc<dyn Protocol>> {
        let fits = |root: &str| path.starts_with(root) || path == root.trim_end_matches('/');
        self.protocols.iter().find(|protocol| fits(protocol.root())).cloned()
    }
}

pub async fn answer<B>(api: &Api, protocol: &dyn Protocol, mut request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    match admit(api, protocol, &mut request).await {
        Ok(user) => {
            let requester = Requester { name: user.name, groups: user.groups };
            let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            protocol.answer(request, &requester, &api.registry).await
        }
        Err(error) => {
            let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            protocol.refuse(status, &error.message)
        }
    }
}

/// Who is it, and may they?
async fn admit<B>(api: &Api, protocol: &dyn Protocol, request: &mut Request<B>) -> Result<User> {
    name_host(request);
    let is_shown = request.headers().contains_key(AUTHORIZATION);
    if is_shown {
        // A node shows its certificate on every connection, and with it, where it has them, the credentials of a pod.
        request.extensions_mut().remove::<Peer>();
        request.extensions_mut().remove::<LocalUser>();
    }
    let user = api.authenticator.authenticate(&api.registry, request).await?;
    let trail = request.extensions().get::<Trail>().cloned();
    api.identify(trail.as_ref(), &user, None).await;
    let real = user.clone();
    let user = api.authorizer.impersonate(user, request.headers()).await?;
    if user != real {
        api.identify(trail.as_ref(), &real, Some(&user)).await;
    }
    if user.is_anonymous() {
        return Err(ApiError::unauthorized());
    }
    let Some(wanted) = protocol.judged_as(request.method(), request.uri().path()) else { return Ok(user) };
    let info = RequestInfo {
        is_resource: true,
        verb: wanted.verb.to_owned(),
        path: request.uri().path().to_owned(),
        group: wanted.group.to_owned(),
        version: "v1".to_owned(),
        namespace: wanted.namespace,
        resource: wanted.resource.to_owned(),
        name: wanted.name,
        ..RequestInfo::default()
    };
    if let Some(Limits(limits)) = request.extensions().get() {
        session_limits::check(limits, &info)?;
    }
    let query = Query::default();
    match api.authorizer.check(&api.registry, &user, &info, &query, trail.as_ref()).await {
        Ok(()) => Ok(user),
        // Its runtime shows a pod's credentials to who asks for some, and never before.
        Err(refused) if user.node_name().is_some() && !is_shown => {
            Err(ApiError { message: refused.message, ..ApiError::unauthorized() })
        }
        Err(refused) => Err(refused),
    }
}
