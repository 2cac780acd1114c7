//! One webhook as it is configured.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhook;
use minik8s_cel::admission::{self, Conditions};

use crate::admission::matching::Matching;
use crate::webhook_client::Client;

pub struct Hook {
    pub name: String,
    /// The configuration that it is part of.
    pub configuration: String,
    pub client: Client,
    pub conditions: Conditions,
    pub matching: Matching,
    /// Validating ones have the same fields.
    spec: MutatingWebhook,
}

impl Hook {
    pub fn new(configuration: &str, spec: MutatingWebhook) -> Result<Self, String> {
        let conditions = spec.match_conditions.iter().flatten();
        let expressions = conditions.map(|condition| condition.expression.as_str());
        Ok(Hook {
            conditions: Conditions::compile(&admission::environment(), expressions),
            name: spec.name.clone(),
            configuration: configuration.to_owned(),
            client: Client::new(&spec.client_config, spec.timeout_seconds.unwrap_or(10)),
            matching: Matching::of_webhook(&spec)?,
            spec,
        })
    }

    pub fn is_reinvoked(&self) -> bool {
        self.spec.reinvocation_policy.as_deref() == Some("IfNeeded")
    }

    pub fn is_ignored_when_failing(&self) -> bool {
        self.spec.failure_policy.as_deref() == Some("Ignore")
    }

    /// The first version of `AdmissionReview` in its list that is spoken here.
    pub fn review_version(&self) -> &str {
        let versions = self.spec.admission_review_versions.iter();
        versions.map(String::as_str).find(|version| matches!(*version, "v1" | "v1beta1")).unwrap_or("v1")
    }
}

/// For collections of hooks.
pub type Hooked = Arc<Vec<Arc<Hook>>>;
