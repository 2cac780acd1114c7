//! Which certificates of clients a Gateway's listeners take (`spec.tls.frontend`). Pure.
//!
//! A listener that is to check clients and has no authority to check them by is not accepted: nobody may think that
//! clients are checked where they are not.

use minik8s_meta::gateway::{CertificateRef, GatewayClients};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::condition::Problem;
use crate::grants::{self, Wanted};
use crate::kinds::{FrontendTls, FrontendTlsValidation, Gateway, Listener, ObjectReference};
use crate::view::{View, referred};

/// What may be wrong with some authorities while others are good.
pub const REASONS: [&str; 3] = ["InvalidCACertificateRef", "InvalidCACertificateKind", "RefNotPermitted"];
const FALLBACK: &str = "AllowInsecureFallback";

/// What a listener has of it.
pub struct Checked {
    pub clients: Option<GatewayClients>,
    pub accepted: Result<(), Problem>,
    pub unresolved: Option<Problem>,
}

/// `certificates`: what the listener shows.
pub fn of_listener(
    gateway: &Gateway,
    listener: &Listener,
    certificates: &[CertificateRef],
    view: &View,
) -> Checked {
    let wanted = frontend(gateway).and_then(|frontend| of_port(frontend, listener.port));
    let Some(wanted) = wanted.filter(|_| listener.protocol == "HTTPS") else {
        return Checked { clients: None, accepted: Ok(()), unresolved: None };
    };
    let namespace = gateway.metadata.namespace.as_deref().unwrap_or_default();
    let (mut authorities, mut unresolved) = (String::new(), None);
    for reference in &wanted.ca_certificate_refs {
        match authority(reference, namespace, view) {
            Ok(pem) => {
                authorities.push_str(pem);
                authorities.push('\n');
            }
            Err(problem) => unresolved = unresolved.or(Some(problem)),
        }
    }
    if authorities.is_empty() {
        let text = "tls.frontend names no authority that clients could be checked by, so nobody is let in";
        let accepted = Err(Problem::new("NoValidCACertificate", text));
        return Checked { clients: None, accepted, unresolved };
    }
    let insecure_fallback = wanted.mode.as_deref() == Some(FALLBACK);
    let clients = GatewayClients { authorities, insecure_fallback, certificates: certificates.to_vec() };
    Checked { clients: Some(clients), accepted: Ok(()), unresolved }
}

/// Whether somewhere clients without a good certificate are let in.
pub fn is_insecure(gateway: &Gateway) -> bool {
    let is_fallback = |one: &FrontendTlsValidation| one.mode.as_deref() == Some(FALLBACK);
    frontend(gateway).is_some_and(|frontend| validations(frontend).any(is_fallback))
}

/// ConfigMaps with authorities.
pub fn references(gateway: &Gateway) -> impl Iterator<Item = &ObjectReference> {
    frontend(gateway).into_iter().flat_map(validations).flat_map(|one| &one.ca_certificate_refs)
}

fn frontend(gateway: &Gateway) -> Option<&FrontendTls> {
    gateway.spec.tls.as_ref()?.frontend.as_ref()
}

fn validations(frontend: &FrontendTls) -> impl Iterator<Item = &FrontendTlsValidation> {
    let all = std::iter::once(&frontend.default).chain(frontend.per_port.iter().map(|one| &one.tls));
    all.filter_map(|one| one.validation.as_ref())
}

/// A port's own settings take the place of the default, also if they want nothing.
fn of_port(frontend: &FrontendTls, port: i32) -> Option<&FrontendTlsValidation> {
    let own = frontend.per_port.iter().find(|one| one.port == port).map(|one| &one.tls);
    own.unwrap_or(&frontend.default).validation.as_ref()
}

fn authority<'v>(reference: &ObjectReference, namespace: &str, view: &'v View) -> Result<&'v str, Problem> {
    let key = referred(reference, namespace);
    let (group, kind) = (reference.group.as_deref().unwrap_or_default(), reference.kind.as_deref());
    if !group.is_empty() || kind != Some("ConfigMap") {
        let text =
            format!("authorities are taken from ConfigMaps, not from {} {key}", kind.unwrap_or_default());
        return Err(Problem::new("InvalidCACertificateKind", text));
    }
    let wanted = Wanted { group, kind: "ConfigMap", namespace: &key.namespace, name: &key.name };
    if !grants::allowed(view.grants.iter().map(AsRef::as_ref), ("Gateway", namespace), wanted) {
        let text = format!("no ReferenceGrant of namespace {} allows ConfigMap {key}", key.namespace);
        return Err(Problem::new("RefNotPermitted", text));
    }
    let invalid = |text: &str| Problem::new("InvalidCACertificateRef", format!("ConfigMap {key} {text}"));
    let map = view.config_maps.get(&key).ok_or_else(|| invalid("does not exist"))?;
    let pem =
        map.data.as_ref().and_then(|data| data.get("ca.crt")).ok_or_else(|| invalid("has no ca.crt"))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    if read.is_ok_and(|certificates| !certificates.is_empty()) {
        Ok(pem)
    } else {
        Err(invalid("has no certificate in ca.crt"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use minik8s_runtime::Key;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::ReferenceGrant;

    fn from<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// Enough of one to be read; whether it is any good is found out at handshakes.
    const PEM: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";

    fn view() -> View {
        let mut view = View::default();
        for (namespace, name, data) in [("infra", "ca", PEM), ("far", "ca", PEM), ("infra", "bad", "nothing")]
        {
            let map = json!({"metadata": {"name": name, "namespace": namespace}, "data": {"ca.crt": data}});
            view.config_maps.insert(Key::new(namespace, name), Arc::new(from(map)));
        }
        view
    }

    fn check(view: &View, frontend: Value, protocol: &str) -> (Option<bool>, &'static str, &'static str) {
        let gateway: Gateway = from(json!({"metadata": {"name": "g", "namespace": "infra"},
            "spec": {"gatewayClassName": "minik8s", "tls": {"frontend": frontend}}}));
        let listener: Listener = from(json!({"name": "l", "port": 443, "protocol": protocol}));
        let found = of_listener(&gateway, &listener, &[], view);
        (
            found.clients.map(|clients| clients.insecure_fallback),
            found.accepted.err().map_or("", |problem| problem.reason),
            found.unresolved.map_or("", |problem| problem.reason),
        )
    }

    #[test]
    fn clients_are_checked_by_authorities_that_are_there() {
        let map = |name: &str| json!({"group": "", "kind": "ConfigMap", "name": name});
        let by = |references: Value| json!({"default": {"validation": {"caCertificateRefs": references}}});
        let mut view = view();
        let none = (None, "", "");
        assert_eq!(check(&view, json!({"default": {}}), "HTTPS"), none);
        assert_eq!(check(&view, by(json!([map("ca")])), "TLS"), none, "requests alone are meant");
        assert_eq!(check(&view, by(json!([map("ca")])), "HTTPS"), (Some(false), "", ""));
        let refused = |reason| (None, "NoValidCACertificate", reason);
        for (name, reason) in [("nobody", "InvalidCACertificateRef"), ("bad", "InvalidCACertificateRef")] {
            assert_eq!(check(&view, by(json!([map(name)])), "HTTPS"), refused(reason));
        }
        let secret = json!({"group": "", "kind": "Secret", "name": "ca"});
        assert_eq!(check(&view, by(json!([secret])), "HTTPS"), refused("InvalidCACertificateKind"));
        let both = check(&view, by(json!([map("ca"), map("bad")])), "HTTPS");
        assert_eq!(
            both,
            (Some(false), "", "InvalidCACertificateRef"),
            "one is enough, and the other is told"
        );
        let far = json!({"group": "", "kind": "ConfigMap", "name": "ca", "namespace": "far"});
        assert_eq!(check(&view, by(json!([far])), "HTTPS"), refused("RefNotPermitted"));
        view.grants.push(Arc::new(from::<ReferenceGrant>(
            json!({"metadata": {"name": "x", "namespace": "far"}, "spec": {
                "from": [{"group": crate::kinds::GROUP, "kind": "Gateway", "namespace": "infra"}],
                "to": [{"group": "", "kind": "ConfigMap"}]}}),
        )));
        assert_eq!(check(&view, by(json!([far])), "HTTPS"), (Some(false), "", ""));
    }

    #[test]
    fn port_has_settings_of_its_own() {
        let view = view();
        let validation = |mode: &str| {
            json!({"validation": {"mode": mode,
            "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}})
        };
        let own = |port: i32, tls: Value| json!({"default": validation("AllowValidOnly"), "perPort": [{"port": port, "tls": tls}]});
        assert_eq!(check(&view, own(443, validation(FALLBACK)), "HTTPS").0, Some(true));
        assert_eq!(check(&view, own(8443, validation(FALLBACK)), "HTTPS").0, Some(false));
        assert_eq!(check(&view, own(443, json!({})), "HTTPS").0, None);
    }
}
