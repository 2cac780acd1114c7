//! The endpoints of Services, and addresses for those of type LoadBalancer.

use minik8s_feature::{Parts, ServerFeature};

use crate::endpoint_slice_mirroring::EndpointMirror;
use crate::endpoints::ServiceEndpoints;
use crate::load_balancer::LoadBalancers;

pub struct Services;

impl ServerFeature for Services {
    fn name(&self) -> &'static str {
        "services"
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(ServiceEndpoints);
        parts.controller(EndpointMirror);
        parts.controller(LoadBalancers);
    }
}
