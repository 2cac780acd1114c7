//! The kinds of the Gateway API: names, versions, columns, defaults and rules.

mod columns;
mod default;
mod filters;
mod gateway;
mod gateway_class;
mod grpc_route;
mod http_route;
mod l4_route;
mod object;
mod reference_grant;
mod shared;
#[cfg(test)]
mod tests;
mod validate;
mod validate_filters;
mod validate_gateway;
mod validate_references;
mod validate_tls_policy;

use jiff::Timestamp;
use minik8s_api::{Cell, Column, FieldErrors, Plain, Resource, Strategy};
use minik8s_meta::gateway::{GatewayAck, GatewayConfig};
use serde_json::Value;

pub use filters::{Fraction, HttpFilter, RequestMirror};
pub use gateway::{
    AllowedListeners, AllowedRoutes, FrontendTls, FrontendTlsValidation, Gateway, GatewayAddress,
    GatewayInfrastructure, GatewaySpec, GatewayStatus, Listener, ListenerSet, ListenerSetStatus,
    ListenerStatus, ListenerTls,
};
pub use gateway_class::{GatewayClass, GatewayClassSpec, GatewayClassStatus, SupportedFeature};
pub use grpc_route::{GrpcMethodMatch, GrpcRoute, GrpcRouteMatch};
pub use http_route::{HttpRetry, HttpRoute, HttpRouteMatch, HttpValueMatch};
pub use l4_route::{L4RouteRule, TcpRoute, TlsRoute, UdpRoute};
pub use reference_grant::{BackendTlsPolicy, PolicyTarget, ReferenceGrant};
pub use shared::{
    BackendObjectReference, BackendRef, NamespaceSelection, ObjectReference, ParentReference,
    PolicyAncestorStatus, PolicyStatus, RouteGroupKind, RouteParentStatus, RouteStatus,
};

pub const GROUP: &str = "gateway.networking.k8s.io";
/// What a GatewayClass names as its controller to get the routers of nodes.
pub const CONTROLLER: &str = "minik8s.io/gateway-controller";
/// The GatewayClass that every cluster has.
pub const CLASS: &str = "minik8s";

/// Everything that differs from kind to kind.
#[derive(Clone, Copy)]
struct GatewayKind {
    default: fn(&mut Value),
    validate: fn(&Value, &mut FieldErrors),
    validate_update: fn(&Value, &Value, &mut FieldErrors),
    columns: &'static [&'static str],
    row: fn(&Value, Timestamp) -> Vec<Cell>,
}

impl Strategy for GatewayKind {
    fn default(&self, object: &mut Value) {
        (self.default)(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        (self.validate)(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        (self.validate_update)(object, old, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(minik8s_api::table::texts(self.columns))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        (self.row)(object, now)
    }
}

const ROUTE: GatewayKind = GatewayKind {
    default: default::l4_route,
    validate: validate::l4_route,
    validate_update: |_, _, _| (),
    columns: &["Name", "Hostnames", "Age"],
    row: columns::route,
};

/// All of them, and what routers are told. Versions before v1 are the same objects.
pub fn all() -> Vec<Resource> {
    let class = GatewayKind {
        default: |_| (),
        validate: validate::gateway_class,
        validate_update: validate::gateway_class_update,
        columns: &["Name", "Controller", "Accepted", "Age"],
        row: columns::gateway_class,
    };
    let gateway = GatewayKind {
        default: default::gateway,
        validate: validate::gateway,
        columns: &["Name", "Class", "Address", "Programmed", "Age"],
        row: columns::gateway,
        ..ROUTE
    };
    let set = GatewayKind {
        default: default::listener_set,
        validate: validate::listener_set,
        columns: &["Name", "Accepted", "Programmed", "Age"],
        row: columns::listener_set,
        ..ROUTE
    };
    let http = GatewayKind { default: default::http_route, validate: validate::http_route, ..ROUTE };
    let grpc = GatewayKind { default: default::grpc_route, validate: validate::grpc_route, ..ROUTE };
    let tls = GatewayKind { validate: validate::tls_route, ..ROUTE };
    let l4 = GatewayKind { columns: &["Name", "Age"], row: columns::plain, ..ROUTE };
    let grant = GatewayKind { default: |_| (), validate: validate::reference_grant, ..l4 };
    let policy = GatewayKind { default: |_| (), validate: validate_tls_policy::backend_tls_policy, ..l4 };
    let class = Resource::of::<GatewayClass>(class).short(&["gc"]).status().counted();
    let gateway = Resource::of::<Gateway>(gateway).short(&["gtw"]).status().counted();
    let http = Resource::of::<HttpRoute>(http).status().counted();
    let grant = Resource::of::<ReferenceGrant>(grant).short(&["refgrant"]).counted();
    let mut kinds: Vec<Resource> =
        [&class, &gateway, &http, &grant].into_iter().map(|kind| older(kind, "v1beta1")).collect();
    kinds.extend([class, gateway, http, grant]);
    kinds.extend([
        Resource::of::<ListenerSet>(set).short(&["lset"]).status().counted(),
        Resource::of::<GrpcRoute>(grpc).status().counted(),
        Resource::of::<TlsRoute>(tls).status().counted(),
        Resource::of::<TcpRoute>(l4).status().counted(),
        Resource::of::<UdpRoute>(l4).status().counted(),
        Resource::of::<BackendTlsPolicy>(policy).short(&["btlspolicy"]).status().counted(),
        Resource::of::<GatewayConfig>(Plain),
        Resource::of::<GatewayAck>(Plain).created_by_put(),
    ]);
    kinds
        .into_iter()
        .map(|kind| if kind.group == GROUP { kind.category("gateway-api") } else { kind })
        .collect()
}

fn older(kind: &Resource, version: &str) -> Resource {
    Resource { version: version.to_owned(), ..kind.clone() }.stored_as(GROUP, "v1")
}
