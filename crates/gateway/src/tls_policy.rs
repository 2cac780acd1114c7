//! BackendTLSPolicies: how Gateways speak TLS with Services.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ServicePort;
use minik8s_meta::gateway::GatewayBackendTls;
use minik8s_runtime::{Key, key_of};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::condition::Problem;
use crate::kinds::{BackendTlsPolicy, PolicyTarget};
use crate::view::View;

/// What the policy of a port says, if there is one; or why nothing can be sent.
pub fn of_port(service: &Key, port: &ServicePort, view: &View) -> Option<Result<GatewayBackendTls, String>> {
    let policy = winner(service, port, view)?;
    let resolved = authorities(policy, view);
    Some(match resolved {
        Ok(authorities) => Ok(GatewayBackendTls {
            hostname: policy.spec.validation.hostname.clone(),
            authorities,
            names: names(policy),
            certificate: None,
        }),
        Err(problem) => Err(format!("BackendTLSPolicy {}: {}", key_of(policy), problem.message)),
    })
}

/// The policy of a port: one that names it before one for the whole Service, then the oldest.
fn winner<'v>(service: &Key, port: &ServicePort, view: &'v View) -> Option<&'v BackendTlsPolicy> {
    let name = port.name.as_deref();
    let fits = |target: &PolicyTarget| {
        target.group.is_empty()
            && target.kind == "Service"
            && target.name == service.name
            && target.section_name.as_deref().is_none_or(|section| Some(section) == name)
    };
    let is_there = |policy: &&Arc<BackendTlsPolicy>| {
        policy.metadata.namespace.as_deref() == Some(service.namespace.as_str())
            && policy.metadata.deletion_timestamp.is_none()
            && policy.spec.target_refs.iter().any(fits)
    };
    let rank = |policy: &&Arc<BackendTlsPolicy>| {
        let whole = policy.spec.target_refs.iter().filter(|t| fits(t)).all(|t| t.section_name.is_none());
        (whole, policy.metadata.creation_timestamp.clone(), key_of(&***policy))
    };
    view.policies.iter().filter(is_there).min_by_key(rank).map(AsRef::as_ref)
}

/// The authorities in PEM; empty for those that nodes trust.
pub fn authorities(policy: &BackendTlsPolicy, view: &View) -> Result<String, Problem> {
    let validation = &policy.spec.validation;
    if validation.well_known_ca_certificates.is_some() {
        return Ok(String::new());
    }
    let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
    let mut found = String::new();
    for reference in &validation.ca_certificate_refs {
        if !reference.group.is_empty() || reference.kind != "ConfigMap" {
            let text = format!("authorities are taken from ConfigMaps, not from {}", reference.kind);
            return Err(Problem::new("InvalidKind", text));
        }
        let key = Key::new(namespace, reference.name.as_str());
        let invalid = |text: &str| Problem::new("InvalidCACertificateRef", format!("ConfigMap {key} {text}"));
        let map = view.config_maps.get(&key).ok_or_else(|| invalid("does not exist"))?;
        let pem =
            map.data.as_ref().and_then(|data| data.get("ca.crt")).ok_or_else(|| invalid("has no ca.crt"))?;
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        if read.is_ok_and(|certificates| !certificates.is_empty()) {
            found.push_str(pem);
            found.push('\n');
        } else {
            return Err(invalid("has no certificate in ca.crt"));
        }
    }
    Ok(found)
}

fn names(policy: &BackendTlsPolicy) -> Vec<String> {
    let names = policy.spec.validation.subject_alt_names.iter().map(|name| match name.type_.as_str() {
        "URI" => format!("URI:{}", name.uri),
        _ => format!("DNS:{}", name.hostname),
    });
    names.collect()
}
