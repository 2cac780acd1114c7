//! The HTTP router of this machine's node.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use kube::Client;
use minik8s_router::table::Objects;
use minik8s_router::{Config, Router};
use tokio::sync::watch;

use crate::remembered::Remembered;

const HOSTS_FILE: &str = "/etc/hosts";
/// The file below the data dir that says which hosts file has our names.
const REMEMBERED: &str = "hosts-file";
/// The file that has the routes for the next start.
const KNOWN: &str = "known-routes";

#[derive(Debug, Clone, Args)]
pub struct RouterFlags {
    /// Port on which host names and paths are answered; 0 for none
    #[arg(long, value_name = "N", default_value_t = 80)]
    pub http_port: u16,
    /// Port on which they are answered with TLS; 0 for none
    #[arg(long, value_name = "N", default_value_t = 443)]
    pub https_port: u16,
    /// The file in which this machine looks for names of hosts; gets a block with those of DNS objects
    #[arg(long, value_name = "FILE", default_value = HOSTS_FILE)]
    pub hosts_file: PathBuf,
}

/// Starts it beside the node's network, until that stops.
pub fn start(
    client: Client,
    flags: &RouterFlags,
    network: &minik8s_network::Config,
    own_address: IpAddr,
    data_dir: &Path,
) -> Arc<Router> {
    // For `tear_down`, which has no flags of the server.
    if let Err(error) =
        std::fs::write(data_dir.join(REMEMBERED), flags.hosts_file.as_os_str().as_encoded_bytes())
    {
        tracing::warn!(%error, "cannot remember that names go into {}", flags.hosts_file.display());
    }
    let node_ip = IpAddr::V4(network.node_ip);
    // A node that only its own machine reaches has a router that only this machine and its pods reach.
    let addresses = match own_address.is_loopback() {
        true => vec![own_address, node_ip],
        false => vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
    };
    let remembered = Remembered::new(data_dir, KNOWN);
    let (memory, objects) = watch::channel(Arc::default());
    let config = Config {
        node_name: network.node_name.clone(),
        node_ip,
        addresses,
        http_port: flags.http_port,
        https_port: flags.https_port,
        cluster_domain: network.dns.as_ref().map(|dns| dns.domain.clone()).unwrap_or_default(),
        hosts_file: flags.hosts_file.clone(),
        known: remembered.read(Objects::from_json),
        memory,
        instance: network.instance.clone(),
        stop: network.stop.clone(),
    };
    remembered.keep(objects, Objects::to_json);
    let router = Arc::new(Router::default());
    let running = router.clone();
    tokio::spawn(async move {
        if let Err(error) = minik8s_router::run(client, config, running).await {
            tracing::error!(%error, "host names and paths are not answered on this node");
        }
    });
    router
}

/// Takes the names of a stopped node out of the machine's hosts file.
pub fn tear_down(data_dir: &Path, instance: &str) {
    let path = std::fs::read_to_string(data_dir.join(REMEMBERED)).unwrap_or_else(|_| HOSTS_FILE.to_owned());
    minik8s_router::tear_down(Path::new(&path), instance);
    Remembered::new(data_dir, KNOWN).forget();
}
