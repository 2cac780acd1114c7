//! Who may, by others: webhooks that are asked before, between or after the node authorizer and RBAC.
//!
//! An AuthorizationConfiguration (`apiserver.config.k8s.io/v1`), or the classic `--authorization-*` flags, says who is asked
//! and in which order. A webhook is sent a SubjectAccessReview over HTTPS; what it said is remembered for a while, that it
//! could not be asked is not. Its failure never allows anything: it denies, or leaves the question to the next.
//!
//! The order is the API server's to walk; nothing here knows RBAC or nodes.

mod classic;
mod configuration;
mod reload;
mod webhook;

pub use classic::ClassicSettings;
pub use configuration::AuthorizationSettings;
pub use reload::{Authorizers, follow};
