//! rbac.authorization.k8s.io: roles and who has them.

mod binding_columns;
pub(super) mod cluster_role;
pub(super) mod cluster_role_binding;
pub(super) mod role;
pub(super) mod role_binding;
mod rules;
