//! Rules about writes that span several objects: one file each, one line in [`Chain::standard`]. A feature hands in rules of
//! its own ([`minik8s_api::AdmissionRule`]), which come and go with it.
//!
//! `admit` runs before validation and may change the object; `review` runs after it and may add to the
//! commit, so that what it counts (quota, addresses) changes atomically with the object; `release` gives
//! back what a vanishing object held.

mod admin_access;
mod creation;
mod definition_lifecycle;
mod equivalent;
mod external_ips;
mod feature_rules;
pub mod followed;
mod host_names;
mod limit_ranger;
mod matching;
mod namespace_lifecycle;
mod node_restriction;
mod param_rights;
mod pod_security;
mod policy;
mod priority;
mod quota;
mod rbac_escalation;
mod records;
mod requester;
mod runtime_class;
mod service_account;
mod service_address;
mod signer_rights;
mod variables;
mod webhook;

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_api::AdmissionRule;
pub use minik8s_api::Operation;
use minik8s_store::Commit;
use serde_json::Value;

pub use pod_security::PodSecurityMetrics;
pub use policy::{PolicyMetrics, PolicySets};
pub use service_address::AddressRanges;
pub use webhook::{Hooks, WebhookMetrics};

use self::policy::Policies;
use self::webhook::Webhooks;

use crate::authorizer::Authorizer;
use crate::error::Result;
use crate::object::Object;
use crate::registry::{Call, DeleteOptions, Registry};

/// A write on its way to the store.
pub struct Request<'a> {
    pub call: &'a Call,
    pub operation: Operation,
    /// The new object; for a delete, a copy of the old one.
    pub object: &'a mut Value,
    pub old: Option<&'a Value>,
    /// What is to be committed together with the object.
    pub also: &'a mut Commit,
    /// How a delete was asked for; None where something else leads to it.
    pub delete: Option<&'a DeleteOptions>,
}

impl<'a> Request<'a> {
    pub fn new(
        call: &'a Call,
        operation: Operation,
        object: &'a mut Value,
        old: Option<&'a Value>,
        also: &'a mut Commit,
    ) -> Self {
        Request { call, operation, object, old, also, delete: None }
    }

    /// False for the body of a subresource that is of another kind: an Eviction, the options of a connection.
    pub fn is_about_itself(&self) -> bool {
        let kind = &self.object["kind"];
        kind.is_null() || *kind == self.call.served.kind.as_str()
    }

    /// Of the object; empty if the server is yet to make one up.
    pub fn name(&self) -> &str {
        if self.call.name.is_empty() { self.object.name() } else { &self.call.name }
    }

    /// True for the resource itself (not a subresource) of that name in the core group.
    pub fn is_core(&self, plural: &str) -> bool {
        self.call.subresource.is_empty()
            && self.call.served.group.is_empty()
            && self.call.served.plural == plural
    }
}

#[async_trait]
pub trait Admission: Send + Sync {
    async fn admit(&self, _registry: &Registry, _request: &mut Request<'_>) -> Result<()> {
        Ok(())
    }

    async fn review(&self, _registry: &Registry, _request: &mut Request<'_>) -> Result<()> {
        Ok(())
    }

    async fn release(&self, _registry: &Registry, _request: &mut Request<'_>) -> Result<()> {
        Ok(())
    }
}

/// What rules must be told.
pub struct Settings {
    pub authorizer: Arc<Authorizer>,
    pub addresses: AddressRanges,
    pub pod_security: PodSecurityMetrics,
    pub allow_external_ips: bool,
    pub of_features: Vec<Arc<dyn AdmissionRule>>,
    pub cluster_domain: String,
    pub webhooks: WebhookMetrics,
    pub policies: PolicyMetrics,
}

/// All rules, in order.
pub struct Chain {
    rules: Vec<Box<dyn Admission>>,
    policies: Arc<Policies>,
    webhooks: Arc<Webhooks>,
}

impl Chain {
    pub fn standard(settings: Settings) -> Self {
        let Settings {
            authorizer,
            addresses,
            pod_security,
            allow_external_ips,
            of_features,
            cluster_domain,
            ..
        } = settings;
        let (hooks, metrics) = (Arc::default(), settings.webhooks);
        let webhooks = Arc::new(Webhooks { hooks, metrics, authorizer: authorizer.clone() });
        let (sets, metrics) = (Arc::default(), settings.policies);
        let policies = Arc::new(Policies { sets, metrics, authorizer: authorizer.clone() });
        let rules: Vec<Box<dyn Admission>> = vec![
            Box::new(creation::Creation { authorizer: authorizer.clone() }),
            Box::new(namespace_lifecycle::NamespaceLifecycle),
            Box::new(node_restriction::NodeRestriction),
            Box::new(definition_lifecycle::DefinitionLifecycle),
            Box::new(rbac_escalation::RbacEscalation { authorizer: authorizer.clone() }),
            Box::new(signer_rights::SignerRights { authorizer: authorizer.clone() }),
            Box::new(param_rights::ParamRights { authorizer }),
            Box::new(requester::Requester),
            Box::new(service_account::ServiceAccounts),
            // After the tokens, which the containers that features add need none of.
            Box::new(feature_rules::FeatureRules(of_features)),
            Box::new(priority::Priority),
            Box::new(runtime_class::RuntimeClasses),
            Box::new(limit_ranger::LimitRanger),
            Box::new(service_address::ServiceAddresses { ranges: addresses }),
            Box::new(admin_access::AdminAccess),
            Box::new(external_ips::DenyExternalIps { is_allowed: allow_external_ips }),
            Box::new(host_names::HostNames { cluster_domain }),
            Box::new(pod_security::PodSecurity { metrics: pod_security }),
            Box::new(policies.clone()),
            Box::new(webhooks.clone()),
            Box::new(records::Records),
            // Last: it counts what the others let through.
            Box::new(quota::Quota),
        ];
        Chain { rules, policies, webhooks }
    }

    /// The policies that are evaluated, to be loaded and followed.
    pub fn policies(&self) -> Arc<PolicySets> {
        self.policies.sets.clone()
    }

    /// The webhooks that are asked, to be loaded and followed.
    pub fn hooks(&self) -> Arc<Hooks> {
        self.webhooks.hooks.clone()
    }

    pub async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        self.admit_by_rules(registry, request).await?;
        let by_policies = self.policies.mutate(registry, request).await?;
        let by_webhooks = self.webhooks.mutate(registry, request).await?;
        if by_policies.is_changed || by_webhooks.is_changed {
            // What they asked to be committed was for the object as it was.
            *request.also = Commit::default();
            self.admit_by_rules(registry, request).await?;
            self.policies.mutate_again(by_policies, registry, request).await?;
            self.webhooks.mutate_again(by_webhooks, registry, request).await?;
        }
        match request.operation {
            // Nothing else is looked at after this.
            Operation::Delete => {
                self.policies.validate(registry, request).await?;
                self.webhooks.validate(registry, request).await
            }
            Operation::Create | Operation::Update | Operation::Connect => Ok(()),
        }
    }

    /// Asks policies and webhooks about what is done to an object without being stored itself: a connection, an
    /// eviction, a binding.
    pub async fn ask(
        &self,
        registry: &Registry,
        call: &Call,
        operation: Operation,
        options: &Value,
    ) -> Result<()> {
        if self.webhooks.hooks.is_empty() && self.policies.is_empty() {
            return Ok(());
        }
        let (mut object, mut also) = (options.clone(), Commit::default());
        let mut request = Request::new(call, operation, &mut object, None, &mut also);
        self.webhooks.mutate(registry, &mut request).await?;
        self.policies.validate(registry, &request).await?;
        self.webhooks.validate(registry, &request).await
    }

    async fn admit_by_rules(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        for rule in &self.rules {
            rule.admit(registry, request).await?;
        }
        Ok(())
    }

    pub async fn review(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        for rule in &self.rules {
            rule.review(registry, request).await?;
        }
        Ok(())
    }

    pub async fn release(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        for rule in &self.rules {
            rule.release(registry, request).await?;
        }
        Ok(())
    }
}
