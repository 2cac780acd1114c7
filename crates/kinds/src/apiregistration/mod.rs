//! apiregistration.k8s.io: API groups that other servers serve.

pub(super) mod api_service;
