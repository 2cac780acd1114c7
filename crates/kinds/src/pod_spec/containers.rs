//! The three lists of containers in a pod spec.

use serde_json::Value;

pub(crate) const INIT: &str = "initContainers";
pub(crate) const MAIN: &str = "containers";
pub(crate) const EPHEMERAL: &str = "ephemeralContainers";

/// One of the lists; empty where it is absent.
pub(crate) fn of<'a>(spec: &'a Value, list: &str) -> &'a [Value] {
    spec[list].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Init containers and main containers, in the order in which they start.
pub(crate) fn lasting(spec: &Value) -> impl Iterator<Item = &Value> {
    of(spec, INIT).iter().chain(of(spec, MAIN))
}

/// An init container that keeps running beside the main ones.
pub(crate) fn is_sidecar(init: &Value) -> bool {
    init["restartPolicy"] == "Always"
}
