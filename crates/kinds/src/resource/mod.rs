//! resource.k8s.io: devices that pods claim.

mod claim_status;
pub(super) mod device_class;
pub(super) mod device_taint_rule;
mod devices;
pub(super) mod resource_claim;
pub(super) mod resource_claim_template;
pub(super) mod resource_slice;
