//! The Gateway API: Gateways, the routes that attach to them, and what becomes of both.
//!
//! Everything is decided here, on the server, by pure functions: which listeners are served ([`listeners`]), which routes
//! attach to them ([`attach`]), who may refer to whom ([`grants`]), in which order requests are matched ([`compile`]). The
//! outcome is a GatewayConfig for each Gateway, which the routers of all nodes follow, and the conditions of all objects.
//! Nothing here sees a request, and nothing here decides who is ready.

mod attach;
mod backends;
mod clients;
mod compile;
mod condition;
mod controller;
mod duration;
mod grants;
mod hostname;
pub mod kinds;
mod listeners;
mod public;
mod route;
mod service_route;
mod tls_policy;
mod view;

use minik8s_api::Extension;
use minik8s_feature::{Parts, ServerFeature};

use controller::{ClassController, GatewayController, PolicyController, RouteController};
use kinds::{GrpcRoute, HttpRoute, TcpRoute, TlsRoute, UdpRoute};

/// The feature: its kinds and its controllers.
#[derive(Debug, Default)]
pub struct GatewayApi {
    /// Whether there is a mesh, so that Services can be parents of routes.
    pub mesh: bool,
}

impl ServerFeature for GatewayApi {
    fn name(&self) -> &'static str {
        "gateway-api"
    }

    fn extension(&self) -> Extension {
        Extension { kinds: kinds::all(), ..Extension::default() }
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(ClassController);
        parts.controller(GatewayController);
        parts.controller(PolicyController);
        parts.controller(RouteController::<HttpRoute>::new("http-route-controller", self.mesh));
        parts.controller(RouteController::<GrpcRoute>::new("grpc-route-controller", self.mesh));
        parts.controller(RouteController::<TlsRoute>::new("tls-route-controller", false));
        parts.controller(RouteController::<TcpRoute>::new("tcp-route-controller", false));
        parts.controller(RouteController::<UdpRoute>::new("udp-route-controller", false));
        if self.mesh {
            parts.controller(service_route::ServiceRouteController);
        }
        parts.task(controller::create_class(parts.client.clone(), parts.stop.clone()));
    }
}
