//! Dynamic resource allocation: claims for pods, and devices that are free again.

use minik8s_feature::{Parts, ServerFeature};

use crate::resource_claim::{ClaimUsers, PodClaims};

pub struct DynamicResources;

impl ServerFeature for DynamicResources {
    fn name(&self) -> &'static str {
        "dynamic-resources"
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(PodClaims);
        parts.controller(ClaimUsers);
    }
}
