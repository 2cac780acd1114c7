//! Objects of the cluster as targets of Prometheus, in the form of its `http_sd_configs`, with the `__meta_kubernetes_*`
//! labels that its own `kubernetes_sd_configs` would give them: Debian's Prometheus is built without those.
//!
//! Pure but for [`Pages`], which remembers what it wrote: a page is a function of objects. What a role is not told of (a pod without an address, an endpoint's pod that is
//! gone) leaves labels out, and never an error.

mod endpoints;
mod endpointslice;
mod ingress;
mod lists;
mod node;
mod objects;
mod pages;
mod pod;
mod rendered;
mod role;
mod selection;
mod service;
mod target;

pub use lists::Lists;
pub use objects::{Kind, Objects, name_of, namespace_of};
pub use pages::Pages;
pub use rendered::{Page, Rendered};
pub use role::Role;
pub use selection::Selection;
pub use target::{Labels, Target, list, sanitized, text};

#[cfg(test)]
mod rendered_tests;
#[cfg(test)]
mod tests;
