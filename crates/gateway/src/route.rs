//! Routes of every kind in one form: parents, hosts, rules.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::gateway::{GatewayMatch, GatewayRetry, PathMatch, ValueMatch};
use minik8s_meta::routing::normal_path;
use minik8s_runtime::{Key, Object};

use crate::attach::{Parent, parent};
use crate::duration;
use crate::kinds::{
    BackendRef, GrpcMethodMatch, GrpcRoute, GrpcRouteMatch, HttpFilter, HttpRetry, HttpRoute, HttpRouteMatch,
    HttpValueMatch, L4RouteRule, ParentReference, RouteStatus, TcpRoute, TlsRoute, UdpRoute,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteKind {
    Http,
    Grpc,
    Tls,
    Tcp,
    Udp,
}

impl RouteKind {
    pub fn name(self) -> &'static str {
        match self {
            RouteKind::Http => "HTTPRoute",
            RouteKind::Grpc => "GRPCRoute",
            RouteKind::Tls => "TLSRoute",
            RouteKind::Tcp => "TCPRoute",
            RouteKind::Udp => "UDPRoute",
        }
    }
}

/// A route as everything here looks at it.
#[derive(Debug, Clone)]
pub struct Route<'a> {
    pub kind: RouteKind,
    pub meta: &'a ObjectMeta,
    pub parents: &'a [ParentReference],
    pub hostnames: &'a [String],
    pub rules: Vec<Rule<'a>>,
    pub status: Option<&'a RouteStatus>,
}

#[derive(Debug, Clone, Default)]
pub struct Rule<'a> {
    pub matches: Vec<Ranked>,
    pub filters: &'a [HttpFilter],
    pub backends: Vec<(&'a BackendRef, &'a [HttpFilter])>,
    pub request_timeout: Option<Duration>,
    pub backend_timeout: Option<Duration>,
    pub retry: Option<GatewayRetry>,
}

/// A match, and how specific its path is: what is larger is tried first.
#[derive(Debug, Clone, Default)]
pub struct Ranked {
    pub rank: (u8, usize),
    pub wanted: GatewayMatch,
}

/// An object that is a route.
pub trait RouteObject: Object {
    fn route(&self) -> Route<'_>;

    #[must_use]
    fn with_status(&self, status: RouteStatus) -> Self;
}

impl<'a> Route<'a> {
    pub fn key(&self) -> Key {
        Key::of_meta(self.meta)
    }

    pub fn namespace(&self) -> &'a str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }

    /// Kind, namespace and name, for people.
    pub fn shown(&self) -> String {
        format!("{} {}", self.kind.name(), self.key())
    }

    /// Every Service that it names, with what gets copies.
    pub fn backends(&self) -> impl Iterator<Item = Key> + '_ {
        let of_filters = |filters: &'a [HttpFilter]| {
            filters.iter().filter_map(|filter| Some(&filter.request_mirror.as_ref()?.backend_ref))
        };
        let namespace = self.namespace();
        let named = self.rules.iter().flat_map(move |rule| {
            let own = rule.backends.iter().flat_map(move |(backend, filters)| {
                std::iter::once(&backend.object).chain(of_filters(filters))
            });
            own.chain(of_filters(rule.filters))
        });
        named.map(move |reference| {
            Key::new(reference.namespace.as_deref().unwrap_or(namespace), reference.name.as_str())
        })
    }
}

impl Route<'_> {
    /// Whether it has no parent but Services: it leads clients that were going there anyway, and lets nobody in.
    pub fn leads_services_alone(&self) -> bool {
        let is_service = |one: &ParentReference| matches!(parent(one, self.namespace()), Parent::Service(_));
        !self.parents.is_empty() && self.parents.iter().all(is_service)
    }

    /// Every Service that is a parent.
    pub fn services(&self) -> Vec<Key> {
        let service = |reference: &ParentReference| match parent(reference, self.namespace()) {
            Parent::Service(key) => Some(key),
            _ => None,
        };
        self.parents.iter().filter_map(service).collect()
    }
}

impl RouteObject for HttpRoute {
    fn route(&self) -> Route<'_> {
        let rules = self.spec.rules.iter().map(|rule| Rule {
            matches: every_if_none(rule.matches.iter().map(http_match).collect()),
            filters: &rule.filters,
            backends: rule.backend_refs.iter().map(|one| (&one.backend, one.filters.as_slice())).collect(),
            request_timeout: rule.timeouts.as_ref().and_then(|t| timeout(t.request.as_deref())),
            backend_timeout: rule.timeouts.as_ref().and_then(|t| timeout(t.backend_request.as_deref())),
            retry: rule.retry.as_ref().map(retry),
        });
        Route {
            kind: RouteKind::Http,
            meta: &self.metadata,
            parents: &self.spec.parent_refs,
            hostnames: &self.spec.hostnames,
            rules: rules.collect(),
            status: self.status.as_ref(),
        }
    }

    fn with_status(&self, status: RouteStatus) -> Self {
        HttpRoute { status: Some(status), ..self.clone() }
    }
}

impl RouteObject for GrpcRoute {
    fn route(&self) -> Route<'_> {
        let rules = self.spec.rules.iter().map(|rule| Rule {
            matches: every_if_none(rule.matches.iter().map(grpc_match).collect()),
            filters: &rule.filters,
            backends: rule.backend_refs.iter().map(|one| (&one.backend, one.filters.as_slice())).collect(),
            ..Rule::default()
        });
        Route {
            kind: RouteKind::Grpc,
            meta: &self.metadata,
            parents: &self.spec.parent_refs,
            hostnames: &self.spec.hostnames,
            rules: rules.collect(),
            status: self.status.as_ref(),
        }
    }

    fn with_status(&self, status: RouteStatus) -> Self {
        GrpcRoute { status: Some(status), ..self.clone() }
    }
}

impl RouteObject for TlsRoute {
    fn route(&self) -> Route<'_> {
        Route {
            kind: RouteKind::Tls,
            meta: &self.metadata,
            parents: &self.spec.parent_refs,
            hostnames: &self.spec.hostnames,
            rules: self.spec.rules.iter().map(l4_rule).collect(),
            status: self.status.as_ref(),
        }
    }

    fn with_status(&self, status: RouteStatus) -> Self {
        TlsRoute { status: Some(status), ..self.clone() }
    }
}

macro_rules! l4_route {
    ($type:ident, $kind:expr) => {
        impl RouteObject for $type {
            fn route(&self) -> Route<'_> {
                Route {
                    kind: $kind,
                    meta: &self.metadata,
                    parents: &self.spec.parent_refs,
                    hostnames: &[],
                    rules: self.spec.rules.iter().map(l4_rule).collect(),
                    status: self.status.as_ref(),
                }
            }

            fn with_status(&self, status: RouteStatus) -> Self {
                $type { status: Some(status), ..self.clone() }
            }
        }
    };
}

l4_route!(TcpRoute, RouteKind::Tcp);
l4_route!(UdpRoute, RouteKind::Udp);

fn l4_rule(rule: &L4RouteRule) -> Rule<'_> {
    Rule {
        matches: vec![Ranked::default()],
        backends: rule.backend_refs.iter().map(|backend| (backend, &[][..])).collect(),
        ..Rule::default()
    }
}

fn every_if_none(matches: Vec<Ranked>) -> Vec<Ranked> {
    if matches.is_empty() { vec![Ranked::default()] } else { matches }
}

fn http_match(wanted: &HttpRouteMatch) -> Ranked {
    let path = wanted.path.as_ref().map(|path| {
        let kind = path.type_.as_deref().unwrap_or("PathPrefix");
        let value = path.value.as_deref().unwrap_or("/");
        let value = if kind == "PathPrefix" { normal_path(value) } else { value };
        PathMatch { kind: kind.to_owned(), value: value.to_owned() }
    });
    let rank = path.as_ref().map_or((1, 1), |path| {
        let kind = match path.kind.as_str() {
            "Exact" => 3,
            "RegularExpression" => 2,
            _ => 1,
        };
        (kind, path.value.len())
    });
    let wanted = GatewayMatch {
        path: path.filter(|path| path.kind != "PathPrefix" || path.value != "/"),
        method: wanted.method.clone(),
        headers: wanted.headers.iter().map(header_match).collect(),
        query: wanted.query_params.iter().map(value_match).collect(),
        rule: 0,
    };
    Ranked { rank, wanted }
}

/// A call is a POST to `/SERVICE/METHOD`.
fn grpc_match(wanted: &GrpcRouteMatch) -> Ranked {
    let (rank, path) = wanted.method.as_ref().map_or(((0, 0), None), grpc_path);
    let wanted = GatewayMatch {
        path,
        headers: wanted.headers.iter().map(header_match).collect(),
        ..GatewayMatch::default()
    };
    Ranked { rank, wanted }
}

fn grpc_path(method: &GrpcMethodMatch) -> ((u8, usize), Option<PathMatch>) {
    let is_regex = method.type_.as_deref() == Some("RegularExpression");
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let of = |kind: &str, value: String| Some(PathMatch { kind: kind.to_owned(), value });
    match (given(&method.service), given(&method.method)) {
        (None, None) => ((0, 0), None),
        (service, name) if is_regex => {
            let any = || "[^/]+".to_owned();
            let length = service.as_ref().map_or(0, String::len) + name.as_ref().map_or(0, String::len);
            let (service, name) = (service.unwrap_or_else(any), name.unwrap_or_else(any));
            ((1, length), of("RegularExpression", format!("/(?:{service})/(?:{name})")))
        }
        (Some(service), Some(name)) => {
            ((3, service.len() + name.len()), of("Exact", format!("/{service}/{name}")))
        }
        (Some(service), None) => ((2, service.len()), of("PathPrefix", format!("/{service}"))),
        (None, Some(name)) => {
            ((1, name.len()), of("RegularExpression", format!("/[^/]+/{}", regex::escape(&name))))
        }
    }
}

fn header_match(wanted: &HttpValueMatch) -> ValueMatch {
    ValueMatch { name: wanted.name.to_ascii_lowercase(), ..value_match(wanted) }
}

fn value_match(wanted: &HttpValueMatch) -> ValueMatch {
    ValueMatch {
        name: wanted.name.clone(),
        value: wanted.value.clone(),
        regex: wanted.type_.as_deref() == Some("RegularExpression"),
    }
}

/// Zero is none.
fn timeout(text: Option<&str>) -> Option<Duration> {
    duration::parse(text?).filter(|duration| !duration.is_zero())
}

fn retry(retry: &HttpRetry) -> GatewayRetry {
    let millis = retry.backoff.as_deref().and_then(duration::parse).map_or(0, |pause| pause.as_millis());
    GatewayRetry {
        codes: retry.codes.iter().filter_map(|code| u16::try_from(*code).ok()).collect(),
        attempts: retry.attempts.and_then(|count| u32::try_from(count).ok()).unwrap_or(1),
        backoff_millis: u64::try_from(millis).unwrap_or(u64::MAX),
    }
}
