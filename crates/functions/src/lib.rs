//! Functions: code that is called by HTTP, with as many instances as there are requests, and none while there are none.
//!
//! This crate has the kinds, with what they must look like, the controller that keeps instances, and the builds that fetch
//! what code depends on. An instance is an ordinary pod of the function's namespace. Requests go through the routers of the nodes (`minik8s-router`), which hold
//! those that have to wait and tell how many there are; nothing here sees a request.

mod build;
mod controller;
mod internal;
mod invocation;
mod kind;
mod openwhisk;
mod plan;
mod revision;
mod status;
#[cfg(test)]
mod tests;
mod traffic;
mod trigger;
mod validate;
pub mod zip;

use minik8s_api::Extension;
use minik8s_feature::{Parts, ServerFeature};

pub use revision::{number as revision_number, spec_of as revision_spec};
pub use validate::{LARGEST_SOURCE, LARGEST_ZIP};

/// The feature: its kinds and its controllers.
#[derive(Default)]
pub struct Functions {
    triggers: trigger::Means,
    openwhisk: openwhisk::OpenWhisk,
}

impl ServerFeature for Functions {
    fn name(&self) -> &'static str {
        "functions"
    }

    fn extension(&self) -> Extension {
        Extension {
            kinds: vec![
                kind::resource(),
                invocation::resource(),
                trigger::resource(&self.triggers),
                internal::endpoints(),
                internal::demands(),
            ],
            routes: vec![self.openwhisk.route()],
            ..Extension::default()
        }
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(controller::FunctionController);
        parts.controller(invocation::InvocationController);
        build::start(parts);
        trigger::start(&self.triggers, parts);
        self.openwhisk.start(parts);
    }
}
