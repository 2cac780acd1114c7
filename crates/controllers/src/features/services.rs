//! The endpoints of Services, addresses for those of type LoadBalancer, and the ranges of virtual addresses.

use minik8s_feature::{Parts, ServerFeature};

use crate::endpoint_slice_mirroring::EndpointMirror;
use crate::endpoints::ServiceEndpoints;
use crate::load_balancer::LoadBalancers;
use crate::service_cidr::ServiceRanges;

pub struct Services;

impl ServerFeature for Services {
    fn name(&self) -> &'static str {
        "services"
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(ServiceEndpoints);
        parts.controller(EndpointMirror);
        parts.controller(LoadBalancers);
        parts.controller(ServiceRanges);
    }
}
