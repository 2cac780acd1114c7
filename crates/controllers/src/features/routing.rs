//! The status of Ingresses and DNS objects: what agents make of them.

use minik8s_feature::{Parts, ServerFeature};

use crate::routing::{DnsStatuses, IngressStatuses};

pub struct Routing;

impl ServerFeature for Routing {
    fn name(&self) -> &'static str {
        "routing"
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(DnsStatuses);
        parts.controller(IngressStatuses);
    }
}
