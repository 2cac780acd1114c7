//! Pod Security: the labels `pod-security.kubernetes.io/{enforce,audit,warn}` of a namespace decide which pods
//! may run in it. As upstream's plugin of that name, without exemptions and with `privileged` as the default.
//!
//! The judgement itself is pure (`minik8s_pod_security`). Here it is asked for the writes that matter, and what
//! it says becomes a refusal, a warning, or an annotation in the audit log. Workloads are never
//! refused, only warned of: what counts are their pods.

mod metrics;
mod namespace;

use async_trait::async_trait;
use minik8s_pod_security::{Decision, Level, Pod, Policy, Subject, is_significant};
use minik8s_store::Condition;

pub use metrics::PodSecurityMetrics;
use metrics::{Mode, Target};

use super::{Admission, Operation, Request};
use crate::codec;
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

pub struct PodSecurity {
    pub metrics: PodSecurityMetrics,
}

/// Through these a pod's spec cannot change. Any other subresource is judged, also one that is yet to come.
const HARMLESS: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

#[async_trait]
impl Admission for PodSecurity {
    async fn review(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        if request.operation == Operation::Delete {
            return Ok(());
        }
        let subresource = call.subresource.as_str();
        match (call.served.group.as_str(), call.served.plural.as_str()) {
            ("", "namespaces") if subresource.is_empty() => namespace::review(registry, request).await,
            ("", "pods") if !HARMLESS.contains(&subresource) => self.review_pod(registry, request).await,
            (group, plural) if subresource.is_empty() => {
                match Pod::of_workload(group, plural, request.object) {
                    Some(_) => self.review_workload(registry, request).await,
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

impl PodSecurity {
    async fn review_pod(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        if request.old.is_some_and(|old| !is_significant(request.object, old)) {
            return Ok(());
        }
        let Some((policy, unchanged)) = self.policy(registry, request, Target::Pod).await? else {
            let namespace = &request.call.namespace;
            return Err(ApiError::internal(format_args!("failed to lookup namespace {namespace:?}")));
        };
        // Stricter labels that are written meanwhile are not overtaken by a pod that they forbid.
        request.also.conditions.push(unchanged);
        let target = (request.operation, Target::Pod, request.call.subresource.as_str());
        request.call.annotate("pod-security.kubernetes.io/enforce-policy", policy.enforce.to_string());
        if policy.is_privileged() {
            self.metrics.count(policy.enforce, Mode::Enforce, true, target);
            return Ok(());
        }
        let decision = Decision::make(&policy, &Pod::of(request.object), Subject::Pod);
        self.metrics.count(policy.enforce, Mode::Enforce, decision.refusal.is_none(), target);
        self.tell(request, &policy, &decision, Target::Pod);
        match decision.refusal {
            None => Ok(()),
            Some(why) => {
                let name = request.object.name();
                Err(ApiError::forbidden(Some(request.call.served.resource()), name, why))
            }
        }
    }

    async fn review_workload(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let Some((policy, _)) = self.policy(registry, request, Target::Controller).await? else {
            return Ok(());
        };
        if policy.warn.level == Level::Privileged && policy.audit.level == Level::Privileged {
            return Ok(());
        }
        let served = &request.call.served;
        if let Some(template) = Pod::of_workload(&served.group, &served.plural, request.object) {
            let decision = Decision::make(&policy, &template, Subject::Template);
            self.tell(request, &policy, &decision, Target::Controller);
        }
        Ok(())
    }

    /// The namespace's policy, and what must still hold when a pod is stored that it allows.
    async fn policy(
        &self,
        registry: &Registry,
        request: &Request<'_>,
        target: Target,
    ) -> Result<Option<(Policy, Condition)>> {
        let call = request.call;
        let namespaces = registry.built_in("", "v1", "namespaces")?;
        let key = namespaces.key("", &call.namespace);
        let Some(entry) = registry.store.get(&key).await? else { return Ok(None) };
        let namespace = codec::decode_split(&namespaces, &entry)?.object;
        let (policy, errors) = Policy::of(namespace.labels());
        if !errors.is_empty() {
            self.metrics.count_error((request.operation, target, call.subresource.as_str()));
        }
        Ok(Some((policy, Condition { key, revision: entry.revision })))
    }

    /// What is said without being refused.
    fn tell(&self, request: &Request<'_>, policy: &Policy, decision: &Decision, target: Target) {
        let call = request.call;
        let about = (request.operation, target, call.subresource.as_str());
        if let Some(violations) = &decision.audit {
            self.metrics.count(policy.audit, Mode::Audit, false, about);
            call.audit(request.object.name(), "pod-security.kubernetes.io/audit-violations", violations);
        }
        if let Some(warning) = &decision.warning {
            self.metrics.count(policy.warn, Mode::Warn, false, about);
            call.warn(warning.as_str());
        }
    }
}
