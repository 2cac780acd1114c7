//! Role-based access control, as a pure function of the RBAC objects.
//!
//! The API server feeds every Role, ClusterRole, RoleBinding and ClusterRoleBinding into a [`Policy`] and
//! asks it. Bindings are indexed by subject, so a check looks only at what the user is bound to.
//! [`bootstrap`] lists the objects of a fresh cluster. Nothing here writes an object.

mod aggregation;
mod bindings;
pub mod bootstrap;
mod covers;
mod escalation;
mod policy;
mod rule;
mod selector;
#[cfg(test)]
mod tests;

pub use bindings::RoleRef;
pub use escalation::{EscalationError, refusal};
pub use policy::{Policy, RbacKind};
pub use rule::Rule;

pub const API_GROUP: &str = "rbac.authorization.k8s.io";
