//! discovery.k8s.io: the backends of Services.

pub(super) mod endpoint_slice;
