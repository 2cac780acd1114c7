//! The description of a pod, wherever one stands: in a Pod or in the template of a workload.
//!
//! `defaults` fills in what users leave out, `validation` finds what they get wrong (one file per subject),
//! `template` is the same for a whole `PodTemplateSpec`. All of it works on JSON that the schema has
//! already checked for types; nothing here knows where the object came from or where it is kept.

pub(crate) mod cells;
pub(crate) mod containers;
pub(crate) mod defaults;
pub(crate) mod equality;
pub(crate) mod qos;
pub(crate) mod template;
pub(crate) mod validation;
pub(crate) mod warnings;
