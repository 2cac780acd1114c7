//! node.k8s.io: container runtimes.

pub(super) mod runtime_class;
