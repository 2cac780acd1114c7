//! The HTTP router of this machine's node.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use futures::future::BoxFuture;
use minik8s_feature::{AgentFeature, AgentParts, NodePlace};
use minik8s_informer::Kind;
use minik8s_meta::function_call::NODE_PATH;
use minik8s_router::{Config, LedServices, Router};
use tokio::sync::watch;

const HOSTS_FILE: &str = "/etc/hosts";
/// The file below the data dir that says which hosts file has our names.
const CHECKPOINT: &str = "hosts-file";
/// Where the content of a hosts file that cannot be replaced is kept while it is written.
const KEPT: &str = "hosts-kept";

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

/// Answers for host names and paths on this node.
#[derive(Debug, Default)]
pub struct RouterAgent {
    /// `None` where it only has to be taken apart.
    pub flags: Option<RouterFlags>,
    pub router: Arc<Router>,
    /// Where the mesh says which Services it leads.
    pub led: watch::Sender<Arc<LedServices>>,
}

impl AgentFeature for RouterAgent {
    fn name(&self) -> &'static str {
        "router"
    }

    fn checkpointed(&self) -> Vec<Kind> {
        minik8s_router::checkpointed()
    }

    fn run<'a>(&'a self, parts: &'a mut AgentParts) -> BoxFuture<'a, ()> {
        if let Some(flags) = &self.flags {
            if let Some(tracer) = parts.tracer.clone() {
                self.router.trace(tracer);
            }
            parts.hosts = Some(self.router.names());
            parts.hooks.function_runtimes = Some(self.router.runtimes());
            let config = config(flags, parts, self.led.subscribe());
            let (access, router) = (parts.access.clone(), self.router.clone());
            parts.task("the router of host names and paths", move || {
                let run = minik8s_router::run(access.clone(), config.clone(), router.clone());
                async move { Ok(run.await?) }
            });
        }
        Box::pin(std::future::ready(()))
    }

    fn metrics(&self) -> String {
        self.router.metrics()
    }

    /// The last calls of a function.
    fn read(&self, path: &[&str]) -> Option<String> {
        let [NODE_PATH, namespace, function] = path else { return None };
        let items = self.router.calls(namespace, function);
        Some(serde_json::json!({"items": items}).to_string())
    }

    /// Takes the names of a stopped node out of the machine's hosts file.
    fn teardown<'a>(&'a self, NodePlace { data_dir, instance }: &'a NodePlace) -> BoxFuture<'a, ()> {
        let path =
            std::fs::read_to_string(data_dir.join(CHECKPOINT)).unwrap_or_else(|_| HOSTS_FILE.to_owned());
        minik8s_router::tear_down(Path::new(&path), instance, &data_dir.join(KEPT));
        Box::pin(std::future::ready(()))
    }
}

fn config(flags: &RouterFlags, parts: &AgentParts, led: watch::Receiver<Arc<LedServices>>) -> Config {
    let (node, data_dir) = (&parts.node, &parts.node.place.data_dir);
    // For `teardown`, which has no flags of the server.
    if let Err(error) =
        std::fs::write(data_dir.join(CHECKPOINT), flags.hosts_file.as_os_str().as_encoded_bytes())
    {
        tracing::warn!(%error, "cannot remember that names go into {}", flags.hosts_file.display());
    }
    let node_ip = node.node_ips.first().copied().unwrap_or(node.address);
    // A node that only its own machine reaches has a router that only this machine and its pods reach.
    let addresses = match node.address.is_loopback() {
        true => vec![node.address, node_ip],
        // That of IPv6 takes clients of IPv4, too.
        false if node.cluster_cidr.v6().is_some() => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
        false => vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
    };
    Config {
        node_name: node.name.clone(),
        node_ip,
        addresses,
        http_port: flags.http_port,
        https_port: flags.https_port,
        cluster_domain: node.domain.clone(),
        hosts_file: flags.hosts_file.clone(),
        hosts_kept: data_dir.join(KEPT),
        instance: node.place.instance.clone(),
        led,
        stop: parts.stop.clone(),
    }
}
