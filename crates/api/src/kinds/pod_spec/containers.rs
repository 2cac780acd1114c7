//! The three lists of containers in a pod spec.

use serde_json::Value;

pub(in crate::kinds) const INIT: &str = "initContainers";
pub(in crate::kinds) const MAIN: &str = "containers";
pub(in crate::kinds) const EPHEMERAL: &str = "ephemeralContainers";

/// One of the lists; empty where it is absent.
pub(in crate::kinds) fn of<'a>(spec: &'a Value, list: &str) -> &'a [Value] {
    spec[list].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Init containers and main containers, in the order in which they start.
pub(in crate::kinds) fn lasting(spec: &Value) -> impl Iterator<Item = &Value> {
    of(spec, INIT).iter().chain(of(spec, MAIN))
}

/// An init container that keeps running beside the main ones.
pub(in crate::kinds) fn is_sidecar(init: &Value) -> bool {
    init["restartPolicy"] == "Always"
}
