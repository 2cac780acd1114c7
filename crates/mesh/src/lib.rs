//! The service mesh: the requests of pods go through a proxy of their own, which leads them as VirtualServices say.
//!
//! Three parts that share nothing but types. On the server: the kinds, and controllers that make of each VirtualService
//! a MeshRoute, addresses and endpoints with weights ([`compile`]), and of each Service with pods of the mesh a MeshService.
//! On a node: the [`agent`], which follows these and MeshPolicies, hands them to the proxies of its pods, gets them their
//! certificates, and says which have applied what. In a pod: the [`sidecar`], which sees every connection that the pod
//! makes, and every one that comes to it.
//!
//! Nothing here decides who is ready; and what nobody has said anything about arrives as it would without a mesh.

mod ack_name;
pub mod agent;
pub mod command;
mod compile;
mod controller;
mod gamma;
mod handover;
mod injection;
mod kinds;
mod pattern;
mod policy;
mod program;
mod protocol;
mod rolling_update;
mod service;
pub mod sidecar;
mod spans;
mod status;
mod tap;
#[cfg(test)]
mod tests;
mod traffic;
mod validate;
mod weights;

use std::sync::{Arc, OnceLock};

use kube::Client;
use minik8s_api::{Access, Extension, Route};
use minik8s_feature::{Parts, ServerFeature};

use crate::injection::ProxyInjection;
use crate::tap::TapHandler;
use crate::traffic::TrafficReader;

/// The feature: its kinds and its controller.
#[derive(Default)]
pub struct Mesh {
    traffic: Arc<TrafficReader>,
    /// Known once the API server runs.
    client: Arc<OnceLock<Client>>,
}

impl ServerFeature for Mesh {
    fn name(&self) -> &'static str {
        "mesh"
    }

    fn extension(&self) -> Extension {
        let mut kinds = kinds::all();
        kinds.push(traffic::resource(self.traffic.clone()));
        let taps = Route {
            path: tap::PATH,
            access: Access::Authorized,
            handler: Arc::new(TapHandler(self.client.clone())),
        };
        Extension {
            kinds,
            routes: vec![taps],
            admission: vec![Arc::new(ProxyInjection)],
            ..Extension::default()
        }
    }

    fn start(&self, parts: &mut Parts) {
        self.traffic.begin(parts.client.clone());
        let _ = self.client.set(parts.client.clone());
        parts.controller(controller::VirtualServiceController);
        parts.controller(service::MeshServiceController);
        parts.controller(rolling_update::RollingUpdateController);
        parts.controller(gamma::GammaController);
        parts.controller(policy::controller::MeshPolicyController);
    }
}
