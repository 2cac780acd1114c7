//! What the router of a node must be told.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use minik8s_proxy::LedServices;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone)]
pub struct Config {
    pub node_name: String,
    /// Where names of DNS objects lead: an address of this node that its pods and itself reach.
    pub node_ip: IpAddr,
    /// Addresses of this node to listen on.
    pub addresses: Vec<IpAddr>,
    /// 0: no HTTP.
    pub http_port: u16,
    /// 0: no HTTPS.
    pub https_port: u16,
    /// Names below it are left to the cluster's DNS.
    pub cluster_domain: String,
    /// The node's hosts file, which gets a block of our own.
    pub hosts_file: PathBuf,
    /// Where its content is kept while it is written in place.
    pub hosts_kept: PathBuf,
    /// Tells this agent's block from those of other agents on the host.
    pub instance: String,
    /// Services to whose address requests are sent, since the mesh leads them from there.
    pub led: watch::Receiver<Arc<LedServices>>,
    /// Ends [`run`](crate::run): no new connections, and those that are open may finish their request.
    pub stop: CancellationToken,
}
