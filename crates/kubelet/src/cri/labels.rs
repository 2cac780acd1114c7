//! Labels and annotations by which the agent finds its pods again. The `io.kubernetes` names are those
//! that `crictl` and log collectors know.

pub const POD_NAME: &str = "io.kubernetes.pod.name";
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const POD_UID: &str = "io.kubernetes.pod.uid";
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Hash of the container's spec: a running container with another hash is replaced.
pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
/// Seconds to wait before the next start should this container end: the back-off survives the agent.
pub const RESTART_DELAY: &str = "minik8s.io/restart-delay";
/// Requests and limits that the container was made with.
pub const RESOURCES: &str = "minik8s.io/resources";
/// File on the node that the container sees as its termination message.
pub const TERMINATION_MESSAGE: &str = "minik8s.io/termination-message";
