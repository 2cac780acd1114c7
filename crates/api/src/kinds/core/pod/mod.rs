//! Pod: containers that run together on one node.

use k8s_openapi::api::core::v1::Pod;

use crate::{Plain, Resource};

const CONNECT: &[&str] = &["create", "get"];
const CONNECT_ANY: &[&str] = &["create", "delete", "get", "patch", "update"];
const CHANGE: &[&str] = &["get", "patch", "update"];

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<Pod>(Plain)
        .short(&["po"])
        .in_all()
        .counted()
        .status()
        .with("attach", "PodAttachOptions", CONNECT)
        .with("binding", "Binding", &["create"])
        .with("ephemeralcontainers", "Pod", CHANGE)
        .with("eviction", "Eviction", &["create"])
        .with("exec", "PodExecOptions", CONNECT)
        .with("log", "Pod", &["get"])
        .with("portforward", "PodPortForwardOptions", CONNECT)
        .with("proxy", "PodProxyOptions", CONNECT_ANY)
        .with("resize", "Pod", CHANGE)
}
