//! What code depends on, fetched inside the cluster: from a requirements.txt or package.json to an image that instances mount.
//!
//! A revision whose archive asks for packages ([`inputs`]) waits until its ConfigMap names an image of them. The function
//! controller makes a pod for that in the function's namespace ([`pod`], [`plan`]), on the runtime's image with the
//! language's own package client. When the pod has them, the server that leads takes them from it ([`task`]), makes one layer
//! of plain files ([`layer`]) and puts it into its registry. The same inputs are fetched once in a namespace, never for
//! another one. Packages may run code while they are fetched, so the pod has no credentials, pushes nothing, and what it
//! hands over is taken for the work of a stranger.

mod inputs;
mod layer;
mod plan;
mod pod;
mod task;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Pod;
use minik8s_feature::Parts;
use minik8s_meta::function::{BUILD_FAILURE_ANNOTATION, BUILD_LABEL};

pub use inputs::inputs;
pub use plan::{Dependencies, plan};
pub use pod::CONTAINER;

/// The reason of a revision that does not start because its packages cannot be fetched.
pub const FAILED: &str = "BuildFailed";

/// Which inputs a pod fetches packages for; nothing of other pods.
pub fn key_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(BUILD_LABEL).map(String::as_str)
}

/// Why the server could not take what the pod has.
pub fn failure_of(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(BUILD_FAILURE_ANNOTATION).map(String::as_str)
}

pub fn start(parts: &mut Parts) {
    parts.task(task::run(task::Surroundings::of(parts)));
}
