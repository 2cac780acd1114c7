//! Which listeners of a Gateway and its sets are served, and why others are not.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use minik8s_meta::gateway::{CertificateRef, GatewayClients};
use minik8s_runtime::key_of;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::clients;
use crate::condition::Problem;
use crate::grants::{self, Wanted};
use crate::kinds::{GROUP, Gateway, Listener, ListenerSet, ObjectReference};
use crate::route::RouteKind;
use crate::view::{View, referred};

/// A listener and what became of it.
#[derive(Debug, Clone)]
pub struct Judged<'a> {
    /// The set it is of; None: the Gateway itself.
    pub set: Option<&'a ListenerSet>,
    /// Of the Gateway or the set.
    pub namespace: &'a str,
    pub listener: &'a Listener,
    /// Routes that may attach.
    pub kinds: Vec<RouteKind>,
    pub accepted: Result<(), Problem>,
    pub resolved: Result<(), Problem>,
    /// Another listener has its place.
    pub conflict: Option<Problem>,
    pub certificates: Vec<CertificateRef>,
    /// What clients have to show.
    pub clients: Option<GatewayClients>,
}

impl Judged<'_> {
    /// Whether requests are answered.
    pub fn is_served(&self) -> bool {
        self.accepted.is_ok() && self.conflict.is_none() && self.refused_kinds_only()
    }

    pub fn is_passthrough(&self) -> bool {
        self.listener.tls.as_ref().and_then(|tls| tls.mode.as_deref()) == Some("Passthrough")
    }

    /// Kinds that it names in vain leave those that it names well.
    fn refused_kinds_only(&self) -> bool {
        match &self.resolved {
            Ok(()) => true,
            Err(problem) if problem.reason == "InvalidRouteKinds" => !self.kinds.is_empty(),
            // Clients are checked by the authorities that were found, if the listener shows a certificate of its own.
            Err(problem) => {
                let shows = self.clients.as_ref().is_some_and(|clients| !clients.certificates.is_empty());
                clients::REASONS.contains(&problem.reason) && shows
            }
        }
    }
}

/// The listeners of the Gateway, then those of the sets that it lets in, the oldest first: whoever comes first keeps a
/// place that two want.
pub fn judge<'a>(gateway: &'a Gateway, sets: &[&'a ListenerSet], view: &View) -> Vec<Judged<'a>> {
    let home = gateway.metadata.namespace.as_deref().unwrap_or_default();
    let own = gateway.spec.listeners.iter().map(|listener| (None, home, listener));
    let added = sets.iter().flat_map(|set| {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        set.spec.listeners.iter().map(move |listener| (Some(*set), namespace, listener))
    });
    let mut taken: BTreeMap<(i32, bool), Vec<(&str, &str)>> = BTreeMap::new();
    let mut judged = Vec::new();
    for (set, namespace, listener) in own.chain(added) {
        let kind = if set.is_some() { "ListenerSet" } else { "Gateway" };
        let (kinds, refused) = route_kinds(listener);
        let (certificates, unresolved) = certificates(listener, kind, namespace, view);
        let checked = clients::of_listener(gateway, listener, &certificates, view);
        let mut one = Judged {
            set,
            namespace,
            listener,
            kinds,
            accepted: accepted(listener).and(checked.accepted),
            resolved: unresolved.or(checked.unresolved).or(refused).map_or(Ok(()), Err),
            conflict: None,
            certificates: if checked.clients.is_some() { Vec::new() } else { certificates },
            clients: checked.clients,
        };
        if one.accepted.is_ok() {
            let place = taken.entry((listener.port, listener.protocol == "UDP")).or_default();
            let hostname = listener.hostname.as_deref().unwrap_or_default();
            one.conflict = conflict(place, hostname, listener);
            if one.conflict.is_none() {
                place.push((family(&listener.protocol), hostname));
            }
        }
        judged.push(one);
    }
    judged
}

/// Whether a Gateway lets a set in.
pub fn lets_in(gateway: &Gateway, set: &ListenerSet, view: &View) -> bool {
    let allowed = gateway.spec.allowed_listeners.as_ref().and_then(|allowed| allowed.namespaces.as_ref());
    let home = gateway.metadata.namespace.as_deref().unwrap_or_default();
    view.selects(allowed, "None", home, &key_of(set).namespace)
}

fn accepted(listener: &Listener) -> Result<(), Problem> {
    match listener.protocol.as_str() {
        "HTTP" | "HTTPS" | "TLS" | "TCP" | "UDP" => Ok(()),
        other => Err(Problem::new(
            "UnsupportedProtocol",
            format!("protocol {other} is not known; there are HTTP, HTTPS, TLS, TCP and UDP"),
        )),
    }
}

/// What can share a port: plain HTTP with itself, and whatever begins with TLS.
pub fn family(protocol: &str) -> &'static str {
    match protocol {
        "HTTP" => "HTTP",
        "HTTPS" | "TLS" => "TLS",
        "UDP" => "UDP",
        _ => "TCP",
    }
}

fn conflict(place: &[(&str, &str)], hostname: &str, listener: &Listener) -> Option<Problem> {
    let own = family(&listener.protocol);
    if let Some((other, _)) = place.iter().find(|(other, _)| *other != own) {
        let text = format!("port {} has a listener of protocol {other} already", listener.port);
        return Some(Problem::new("ProtocolConflict", text));
    }
    let same = place.iter().any(|(_, other)| *other == hostname || matches!(own, "TCP" | "UDP"));
    let shown = if hostname.is_empty() { "any host" } else { hostname };
    same.then(|| {
        let text = format!("port {} has a listener for {shown} already", listener.port);
        Problem::new("HostnameConflict", text)
    })
}

/// Kinds that fit the protocol and are allowed; and what is wrong with the list.
fn route_kinds(listener: &Listener) -> (Vec<RouteKind>, Option<Problem>) {
    let fitting: &[RouteKind] = match listener.protocol.as_str() {
        "HTTP" | "HTTPS" => &[RouteKind::Http, RouteKind::Grpc],
        "TLS" => &[RouteKind::Tls],
        "TCP" => &[RouteKind::Tcp],
        "UDP" => &[RouteKind::Udp],
        _ => &[],
    };
    let wanted = listener.allowed_routes.as_ref().map(|allowed| allowed.kinds.as_slice()).unwrap_or_default();
    if wanted.is_empty() {
        return (fitting.to_vec(), None);
    }
    let (mut kinds, mut unknown) = (Vec::new(), Vec::new());
    for one in wanted {
        let is_ours = one.group.as_deref().is_none_or(|group| group == GROUP);
        match fitting.iter().find(|kind| is_ours && kind.name() == one.kind) {
            Some(kind) => kinds.push(*kind),
            None => unknown.push(one.kind.as_str()),
        }
    }
    let problem = (!unknown.is_empty()).then(|| {
        let text =
            format!("routes of kind {} cannot attach to protocol {}", unknown.join(", "), listener.protocol);
        Problem::new("InvalidRouteKinds", text)
    });
    (kinds, problem)
}

fn certificates(
    listener: &Listener,
    kind: &str,
    namespace: &str,
    view: &View,
) -> (Vec<CertificateRef>, Option<Problem>) {
    let mut found = Vec::new();
    let ends_tls = family(&listener.protocol) == "TLS"
        && listener.tls.as_ref().and_then(|tls| tls.mode.as_deref()) != Some("Passthrough");
    if !ends_tls {
        return (found, None);
    }
    let references = listener.tls.iter().flat_map(|tls| &tls.certificate_refs);
    for reference in references {
        match certificate(reference, (kind, namespace), "InvalidCertificateRef", view) {
            Ok(certificate) => found.push(certificate),
            Err(problem) => return (Vec::new(), Some(problem)),
        }
    }
    if found.is_empty() {
        let text = "tls.certificateRefs names no Secret, and no other way to a certificate is known";
        return (found, Some(Problem::new("InvalidCertificateRef", text)));
    }
    (found, None)
}

/// What the Gateway shows to backends (`spec.tls.backend`), if it is to show anything.
pub fn backend_certificate(gateway: &Gateway, view: &View) -> Option<Result<CertificateRef, Problem>> {
    let reference = gateway.spec.tls.as_ref()?.backend.as_ref()?.client_certificate_ref.as_ref()?;
    let namespace = gateway.metadata.namespace.as_deref().unwrap_or_default();
    Some(certificate(reference, ("Gateway", namespace), "InvalidClientCertificateRef", view))
}

/// A Secret that an object of that kind and namespace may name, and that a router could show.
fn certificate(
    reference: &ObjectReference,
    (kind, namespace): (&str, &str),
    invalid: &'static str,
    view: &View,
) -> Result<CertificateRef, Problem> {
    let key = referred(reference, namespace);
    let group = reference.group.as_deref().unwrap_or_default();
    let named = reference.kind.as_deref().unwrap_or("Secret");
    if !group.is_empty() || named != "Secret" {
        let text = format!("certificates are taken from Secrets, not from {named} {key}");
        return Err(Problem::new(invalid, text));
    }
    let wanted = Wanted { group, kind: named, namespace: &key.namespace, name: &key.name };
    let grants = view.grants.iter().map(AsRef::as_ref);
    if !grants::allowed(grants, (kind, namespace), wanted) {
        let text = format!("no ReferenceGrant of namespace {} allows Secret {key}", key.namespace);
        return Err(Problem::new("RefNotPermitted", text));
    }
    let secret = view.secrets.get(&key).ok_or_else(|| "it does not exist".to_owned());
    secret
        .and_then(|secret| check_certificate(secret))
        .map_err(|problem| Problem::new(invalid, format!("Secret {key}: {problem}")))?;
    Ok(CertificateRef { namespace: key.namespace, name: key.name })
}

/// Whether a router could show it.
pub fn check_certificate(secret: &Secret) -> Result<(), String> {
    if secret.type_.as_deref() != Some("kubernetes.io/tls") {
        return Err("it is not of the type kubernetes.io/tls".to_owned());
    }
    let field = |name: &str| {
        let found = secret.data.as_ref().and_then(|data| data.get(name));
        found.map(|bytes| bytes.0.as_slice()).ok_or_else(|| format!("it has no {name}"))
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(field("tls.crt")?)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("tls.crt: {error}"))?;
    let key =
        PrivateKeyDer::from_pem_slice(field("tls.key")?).map_err(|error| format!("tls.key: {error}"))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| error.to_string())?;
    Ok(())
}
