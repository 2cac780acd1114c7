//! autoscaling: replicas that follow the load.

pub(super) mod horizontal_pod_autoscaler;
