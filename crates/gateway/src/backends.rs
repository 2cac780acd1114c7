//! What routes lead to: Services, if they are there and may be named, and what happens on the way.

use k8s_openapi::api::core::v1::ServicePort;
use minik8s_meta::gateway::{GatewayFilters, GatewayMirror, GatewayTarget};
use minik8s_runtime::Key;

use crate::condition::Problem;
use crate::grants::{self, Wanted};
use crate::kinds::{BackendObjectReference, HttpFilter};
use crate::route::{Route, RouteKind};
use crate::tls_policy;
use crate::view::View;

/// The Service of a reference; with a problem it answers with errors.
pub fn target(
    reference: &BackendObjectReference,
    route: &Route<'_>,
    view: &View,
) -> (GatewayTarget, Option<Problem>) {
    let key = Key::new(reference.namespace.as_deref().unwrap_or(route.namespace()), reference.name.as_str());
    let mut target = GatewayTarget {
        namespace: key.namespace.clone(),
        service: key.name.clone(),
        port: reference.port.unwrap_or_default(),
        udp: route.kind == RouteKind::Udp,
        ..GatewayTarget::default()
    };
    match resolve(reference, &key, route, view) {
        Ok(port) => {
            let protocol = port.app_protocol.as_deref().unwrap_or_default();
            target.h2c = protocol == "kubernetes.io/h2c" || route.kind == RouteKind::Grpc;
            if matches!(route.kind, RouteKind::Http | RouteKind::Grpc) {
                match tls_policy::of_port(&key, port, view) {
                    None => {}
                    Some(Ok(tls)) => target.tls = Some(tls),
                    // Without a way to know the backend nothing is sent to it.
                    Some(Err(problem)) => target.problem = Some(problem),
                }
            }
            (target, None)
        }
        Err(problem) => {
            target.problem = Some(problem.message.clone());
            (target, Some(problem))
        }
    }
}

fn resolve<'v>(
    reference: &BackendObjectReference,
    key: &Key,
    route: &Route<'_>,
    view: &'v View,
) -> Result<&'v ServicePort, Problem> {
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Service");
    if !group.is_empty() || kind != "Service" {
        let text = format!("backends are Services; {kind} {key} is none");
        return Err(Problem::new("InvalidKind", text));
    }
    let wanted = Wanted { group, kind, namespace: &key.namespace, name: &key.name };
    let from = (route.kind.name(), route.namespace());
    let is_own_parent = || route.leads_services_alone() && route.services().contains(key);
    if !grants::allowed(view.grants.iter().map(AsRef::as_ref), from, wanted) && !is_own_parent() {
        let text = format!(
            "no ReferenceGrant of namespace {} lets a {} of namespace {} refer to Service {}",
            key.namespace, from.0, from.1, key.name
        );
        return Err(Problem::new("RefNotPermitted", text));
    }
    let service = view.services.get(key).and_then(|service| service.spec.as_ref());
    let service =
        service.ok_or_else(|| Problem::new("BackendNotFound", format!("Service {key} does not exist")))?;
    if service.type_.as_deref() == Some("ExternalName") {
        let text = format!("Service {key} is an ExternalName; requests go to Services with endpoints only");
        return Err(Problem::new("UnsupportedProtocol", text));
    }
    let is_udp = route.kind == RouteKind::Udp;
    let mut ports =
        service.ports.iter().flatten().filter(|port| Some(port.port) == reference.port).peekable();
    if ports.peek().is_none() {
        let port = reference.port.map_or("without a number".to_owned(), |port| port.to_string());
        return Err(Problem::new("BackendNotFound", format!("Service {key} has no port {port}")));
    }
    ports.find(|port| (port.protocol.as_deref() == Some("UDP")) == is_udp).ok_or_else(|| {
        let text = format!("the port of Service {key} is not of the protocol of a {}", route.kind.name());
        Problem::new("UnsupportedProtocol", text)
    })
}

/// Filters in the form of routers, and why requests cannot pass them.
pub fn filters(
    filters: &[HttpFilter],
    route: &Route<'_>,
    view: &View,
    problems: &mut Vec<Problem>,
) -> GatewayFilters {
    let mut all = GatewayFilters::default();
    for filter in filters {
        match filter.type_.as_str() {
            "RequestHeaderModifier" => all.request_headers = filter.request_header_modifier.clone(),
            "ResponseHeaderModifier" => all.response_headers = filter.response_header_modifier.clone(),
            "RequestRedirect" => all.redirect = filter.request_redirect.clone(),
            "URLRewrite" => all.rewrite = filter.url_rewrite.clone(),
            "CORS" => all.cors = filter.cors.clone(),
            "RequestMirror" => {
                let Some(mirror) = &filter.request_mirror else { continue };
                let (target, problem) = target(&mirror.backend_ref, route, view);
                problems.extend(problem);
                let fraction = mirror.fraction.as_ref();
                let (numerator, denominator) = match (mirror.percent, fraction) {
                    (Some(percent), _) => (percent, 100),
                    (None, Some(fraction)) => (fraction.numerator, fraction.denominator.unwrap_or(100)),
                    (None, None) => (1, 1),
                };
                let count = |number: i32| u32::try_from(number).unwrap_or_default();
                let (numerator, denominator) = (count(numerator), count(denominator).max(1));
                all.mirrors.push(GatewayMirror { target, numerator, denominator });
            }
            _ => {
                let text = format!("there is no filter {} here", filter.type_);
                problems.push(Problem::new("InvalidKind", text));
            }
        }
    }
    all
}
