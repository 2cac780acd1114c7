//! Functions: code that is called by HTTP, with as many instances as there are requests, and none while there are none.
//!
//! This crate has the kinds, with what they must look like, the controller that keeps instances, and the builds that fetch
//! what code depends on. An instance is an ordinary pod of the function's namespace. Requests go through the routers of the
//! nodes (`minik8s-router`), which hold those that have to wait, tell how many there are, and how the last ones ended when
//! somebody asks (`calls`); nothing here sees a request.

mod build;
mod calls;
mod code;
mod collect;
mod controller;
mod image;
mod internal;
mod invocation;
mod kind;
mod openwhisk;
mod plan;
mod revision;
mod state_metrics;
mod status;
#[cfg(test)]
mod tests;
mod traffic;
mod trigger;
mod validate;
pub mod zip;

use minik8s_api::Extension;
use minik8s_feature::{Parts, ServerFeature};

pub use build::FAILED as BUILD_FAILED;
pub use code::{of_revision as revision_code, place as place_code};
pub use revision::{number as revision_number, spec_of as revision_spec};
pub use validate::LARGEST_SOURCE;

/// The feature: its kinds and its controllers.
#[derive(Default)]
pub struct Functions {
    /// Whether there is a registry for code to be in.
    in_registry: bool,
    triggers: trigger::Means,
    /// By which nodes are asked for the last calls.
    client: calls::LateClient,
    openwhisk: openwhisk::OpenWhisk,
}

impl Functions {
    /// `in_registry`: whether there is a registry, for code to be in.
    pub fn new(in_registry: bool) -> Self {
        Functions { in_registry, ..Functions::default() }
    }
}

impl ServerFeature for Functions {
    fn name(&self) -> &'static str {
        "functions"
    }

    fn extension(&self) -> Extension {
        Extension {
            kinds: vec![
                kind::resource().handled(
                    "calls",
                    "Function",
                    &["get"],
                    calls::CallsHandler(self.client.clone()),
                ),
                invocation::resource(&self.client),
                trigger::resource(&self.triggers),
                internal::endpoints(),
                internal::demands(),
            ],
            routes: vec![self.openwhisk.route()],
            ..Extension::default()
        }
    }

    fn start(&self, parts: &mut Parts) {
        let _ = self.client.set(parts.client.clone());
        parts.controller(controller::FunctionController { in_registry: self.in_registry });
        if self.in_registry {
            code::start(parts);
            collect::start(parts);
        }
        parts.controller(invocation::InvocationController);
        build::start(parts);
        trigger::start(&self.triggers, parts);
        self.openwhisk.start(parts);
    }
}
