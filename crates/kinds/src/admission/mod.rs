//! admissionregistration.k8s.io: webhooks and policies that judge requests.

mod matching;
pub(super) mod mutating_admission_policy;
pub(super) mod mutating_admission_policy_binding;
pub(super) mod mutating_webhook_configuration;
mod policies;
pub(super) mod validating_admission_policy;
pub(super) mod validating_admission_policy_binding;
pub(super) mod validating_webhook_configuration;
mod webhooks;
