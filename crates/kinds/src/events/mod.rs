//! events.k8s.io: the newer form of core Events.

pub(super) mod event;
