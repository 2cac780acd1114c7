//! minik8s.io: the kinds of our own.

pub mod dns;
