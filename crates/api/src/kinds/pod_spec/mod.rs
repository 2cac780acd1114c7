//! The description of a pod, wherever one stands: in a Pod or in the template of a workload.
//!
//! `defaults` fills in what users leave out, `validation` finds what they get wrong (one file per subject),
//! `template` is the same for a whole `PodTemplateSpec`. All of it works on JSON that the schema has
//! already checked for types; nothing here knows where the object came from or where it is kept.

pub(in crate::kinds) mod cells;
pub(in crate::kinds) mod containers;
pub(in crate::kinds) mod defaults;
pub(in crate::kinds) mod equality;
pub(in crate::kinds) mod qos;
pub(in crate::kinds) mod template;
pub(in crate::kinds) mod validation;
pub(in crate::kinds) mod warnings;
