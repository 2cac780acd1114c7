//! scheduling.k8s.io: which pods go first.

pub(super) mod priority_class;
