//! A protocol of others' that the API server's port speaks below a path of its own: with bodies of any size, taken as they
//! come, and with refusals in the protocol's own form. Who asks and what they may is still for the API server to decide.

use std::error::Error;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;

use crate::{Body, Objects, Requester};

/// The body of a request, as it comes.
pub type RequestBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

#[async_trait]
pub trait Protocol: Send + Sync {
    /// The path below which it is spoken, with a slash at its end.
    fn root(&self) -> &'static str;

    /// What RBAC and the node authorizer judge the request as. `None`: whoever is known may ask.
    fn judged_as(&self, method: &Method, path: &str) -> Option<ResourceRequest>;

    /// How the API server refuses what it does not let through; with 401 the client is told how to say who it is.
    fn refuse(&self, status: StatusCode, message: &str) -> Response<Body>;

    /// Answers a request that may be made. Nothing bounds its time or its size but the protocol itself.
    async fn answer(
        &self,
        request: Request<RequestBody>,
        requester: &Requester,
        cluster: &dyn Objects,
    ) -> Response<Body>;
}

/// A request in the terms of RBAC's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRequest {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    /// Empty for all namespaces.
    pub namespace: String,
    /// Empty for all objects.
    pub name: String,
}
