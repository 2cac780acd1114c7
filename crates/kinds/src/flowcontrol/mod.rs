//! flowcontrol.apiserver.k8s.io: fair shares of the API server.

pub(super) mod flow_schema;
pub(super) mod priority_level_configuration;
