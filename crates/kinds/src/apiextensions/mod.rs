//! apiextensions.k8s.io: kinds that users define.

pub(super) mod custom_resource_definition;
