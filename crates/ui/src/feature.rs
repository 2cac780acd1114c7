//! The dashboard on the API server: its files below `/ui/`, for everybody, and the sessions of those who log in. What the
//! page shows is asked of the API, by the user who is logged in.

use std::sync::Arc;

use async_trait::async_trait;
use http::header::{HeaderValue, LOCATION};
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use minik8s_api::{Access, Body, Extension, Handler, HandlerRequest, Objects, Route, respond};
use minik8s_feature::ServerFeature;

use crate::history::{self, History};
use crate::server_door::{Door, Exchange};
use crate::server_sessions::ServerSessions;
use crate::{PATH, assets};

/// The feature `dashboard`.
#[derive(Default)]
pub struct Dashboard {
    sessions: Arc<ServerSessions>,
}

impl ServerFeature for Dashboard {
    fn name(&self) -> &'static str {
        "dashboard"
    }

    fn extension(&self) -> Extension {
        let route = |path, access, handler| Route { path, access, handler };
        let files: Arc<dyn Handler> = Arc::new(Files);
        // The first that matches answers.
        let routes = vec![
            route(history::PATH, Access::Authenticated, Arc::new(History)),
            route("/ui/session", Access::Public, Arc::new(Exchange(self.sessions.clone()))),
            route("/ui/sessions", Access::Authenticated, Arc::new(Door(self.sessions.clone()))),
            route(PATH, Access::Public, files.clone()),
            route(PATH.trim_end_matches('/'), Access::Public, files),
        ];
        Extension { routes, sessions: Some(self.sessions.clone()), ..Extension::default() }
    }
}

struct Files;

#[async_trait]
impl Handler for Files {
    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "these are files: GET them\n");
        }
        if !request.path.starts_with(PATH) {
            let mut response = respond(StatusCode::PERMANENT_REDIRECT, "text/plain", "");
            response.headers_mut().insert(LOCATION, HeaderValue::from_static(PATH));
            return response;
        }
        assets::answer(&request.path, &request.headers).map(|body| Full::new(body).boxed_unsync())
    }
}
