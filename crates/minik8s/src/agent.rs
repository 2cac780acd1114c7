//! `minik8s agent`: this machine as a node of a cluster whose servers are elsewhere.

use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use minik8s_auth::bootstrap_token::JoinToken;
use minik8s_datadir::{LockError, Occupant, lock};
use minik8s_join::{Joining, Member, ServerAddress, join};
use minik8s_meta::IpFamily;
use minik8s_runtime::Supervisor;
use nix::fcntl::Flock;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio_util::sync::CancellationToken;

use crate::cluster_settings::ClusterSettings;
use crate::features::AgentFeatures;
use crate::node::{self, MachineFlags, Node};
use crate::registry_hosts::RegistryHosts;
use crate::server::lives;
use crate::{host, output, server, server_list};

/// How long a running agent may take to end when the machine leaves the cluster.
const TIMEOUT: Duration = Duration::from_secs(10);

const TOKEN_VARIABLE: &str = "MINIK8S_TOKEN";

#[derive(Debug, Args)]
pub struct AgentFlags {
    /// Where the node's credentials and containers are kept
    #[arg(long, value_name = "DIR", default_value = "/var/lib/minik8s")]
    pub data_dir: PathBuf,
    /// Address of a server; give it several times if there are several. Needed the first time only
    #[arg(long, value_name = "https://HOST:PORT")]
    pub server: Vec<ServerAddress>,
    /// @FILE with the join token, or the token itself, which every user of the machine can then read. Needed the first time only
    #[arg(long, value_name = "@FILE|TOKEN", env = TOKEN_VARIABLE, hide_env_values = true)]
    pub token: Option<String>,
    #[command(flatten)]
    pub machine: MachineFlags,
    /// Do without a feature of the node; give it several times to do without several
    #[arg(long, value_name = "NAME")]
    pub disable_feature: Vec<String>,
    /// Leave the cluster: end all pods, remove the Node, forget the credentials
    #[arg(long)]
    pub leave: bool,
}

pub async fn run(flags: AgentFlags) -> anyhow::Result<()> {
    let no_dir = || format!("cannot use the data dir {}", flags.data_dir.display());
    // From here on by the name that the mount table knows it by.
    let data_dir = minik8s_datadir::prepare(&flags.data_dir).with_context(no_dir)?;
    if flags.leave {
        return leave(&flags, &data_dir).await;
    }
    AgentFeatures::check(&flags.disable_feature)?;
    let _lock = lock(&data_dir, Occupant::Agent)?;
    let description = flags.machine.description()?;
    let exports = flags.machine.export.open()?;
    let member = Arc::new(member(&flags, &data_dir, description.name.as_deref()).await?);
    let stop = CancellationToken::new();
    let mut parts = Supervisor::new(stop.clone());
    exports.run(&mut parts, &stop);
    let renewing = member.clone();
    parts.restart("the renewal of the node's certificates", move || {
        let member = renewing.clone();
        async move { lives(member.keep_fresh()).await }
    });
    let hosts = RegistryHosts::of_member(&data_dir, &credentials(&data_dir));
    let settings = ClusterSettings::fetch(member.client(), &data_dir).await?;
    node::check_ranges(&data_dir, &settings.cluster_cidr, None).await?;
    let node = Node {
        name: member.node_name.clone(),
        addresses: flags.machine.addresses(&settings.cluster_cidr, |family| {
            let towards = towards_server(&member.servers);
            towards.filter(|address| IpFamily::of(*address) == family).or_else(|| host::address_of(family))
        })?,
        port: flags.machine.node_port,
        // The rules of this node lead its pods to the servers' ports as well.
        api_port: member.servers.first().map(|server| server.port),
        cri_endpoint: flags.machine.cri_endpoint.clone(),
        backend: flags.machine.network_backend,
        router: flags.machine.router.clone(),
        housekeeping: flags.machine.housekeeping.clone(),
        exports: exports.clone(),
        description,
        settings,
        serving: node::serving(member.serving.clone(), member.ca_pem.clone()),
        data_dir,
    };
    let features = node.features(&flags.disable_feature);
    let access = node.access(member.client(), &features, &stop);
    let (following, caches) = (member.clone(), access.caches.clone());
    parts.restart("the list of servers", move || {
        lives(server_list::follow(following.clone(), caches.clone(), hosts.clone()))
    });
    tokio::select! {
        ended = parts.ended() => Err(ended.into()),
        ended = node.run(access, features, stop.clone()) => ended,
        signal = server::wait_for_signal() => {
            tracing::info!("stopping; pods go on");
            stop.cancel();
            Ok(signal?)
        }
    }
}

/// Joins, or is what it was before.
async fn member(flags: &AgentFlags, data_dir: &Path, described: Option<&str>) -> anyhow::Result<Member> {
    let directory = credentials(data_dir);
    let named = flags.machine.node_name.clone().or(described.map(str::to_owned));
    let node_name = named.or_else(|| minik8s_join::known_name(&directory)).unwrap_or_else(host::name);
    let servers = match flags.server.is_empty() {
        true => minik8s_join::known_servers(&directory),
        false => flags.server.clone(),
    };
    // Which families pods have is not known yet.
    let mut addresses = match flags.machine.node_ip.is_empty() {
        true => vec![towards_server(&servers).unwrap_or_else(host::address)],
        false => flags.machine.node_ip.clone(),
    };
    // An address that a server has as well is for the server to show.
    let is_shared = |address: &IpAddr| servers.iter().any(|server| server.host.parse() == Ok(*address));
    addresses.retain(|address| !is_shared(address) && !address.is_loopback());
    let token = flags.token.as_deref().map(read_token).transpose()?;
    warn_if_seen(flags.token.as_deref());
    Ok(join(Joining { directory, node_name, addresses, servers, token }).await?)
}

fn credentials(data_dir: &Path) -> PathBuf {
    data_dir.join("credentials")
}

/// Everybody on the machine can read the arguments of a process, but nobody else its environment.
fn warn_if_seen(given: Option<&str>) {
    if given.is_some_and(|given| is_seen(given, std::env::var(TOKEN_VARIABLE).ok().as_deref())) {
        tracing::warn!(
            "the join token is in the process list, where every user of this machine can read it: put it into a \
             file and give --token @FILE, or set {TOKEN_VARIABLE}"
        );
    }
}

fn is_seen(given: &str, environment: Option<&str>) -> bool {
    !given.starts_with('@') && environment != Some(given)
}

fn read_token(given: &str) -> anyhow::Result<JoinToken> {
    let text = match given.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).with_context(|| format!("--token {given}"))?,
        None => given.to_owned(),
    };
    text.parse().context("--token")
}

/// The address that packets to the server bear.
fn towards_server(servers: &[ServerAddress]) -> Option<IpAddr> {
    servers.iter().find_map(|server| host::address_towards(&server.host, server.port))
}

async fn leave(flags: &AgentFlags, data_dir: &Path) -> anyhow::Result<()> {
    let directory = credentials(data_dir);
    let Some(name) = minik8s_join::known_name(&directory) else {
        bail!("this machine is in no cluster: {} holds no credentials", directory.display());
    };
    let _lock = end_agent(data_dir).await?;
    node::tear_down(data_dir).await?;
    let client = member(flags, data_dir, Some(&name)).await?.client();
    let told = tell_gone(client, &name).await;
    minik8s_join::leave(&directory)?;
    let text = match told {
        Ok(()) => format!("{name} has left the cluster."),
        Err(error) => format!(
            "{name} has forgotten the cluster, but the cluster could not be told ({error:#}).\n\
             Tell it: kubectl delete node {name}"
        ),
    };
    Ok(output::line(text)?)
}

/// The containers are gone: so are the pods, without waiting, and the node.
async fn tell_gone(client: kube::Client, name: &str) -> anyhow::Result<()> {
    let of_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let at_once = DeleteParams::default().grace_period(0);
    for pod in Api::<Pod>::all(client.clone()).list(&of_node).await? {
        let namespace = pod.metadata.namespace.unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        ignore_missing(pods.delete(&pod.metadata.name.unwrap_or_default(), &at_once).await)?;
    }
    ignore_missing(Api::<NodeObject>::all(client).delete(name, &DeleteParams::default()).await)
}

fn ignore_missing<T>(deleted: Result<T, kube::Error>) -> anyhow::Result<()> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).map_err(Into::into),
    }
}

/// Ends the agent of this data dir, if one runs.
async fn end_agent(data_dir: &Path) -> anyhow::Result<Flock<File>> {
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    let pid = match lock(data_dir, Occupant::Agent) {
        Ok(held) => return Ok(held),
        Err(LockError::Held { pid, .. }) => pid,
        Err(error) => return Err(error.into()),
    };
    let pid = Pid::from_raw(pid.context("another agent runs here, but which one is not known")?);
    kill(pid, Signal::SIGTERM).with_context(|| format!("cannot end the agent (pid {pid})"))?;
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        match lock(data_dir, Occupant::Agent) {
            Ok(held) => return Ok(held),
            Err(error) if tokio::time::Instant::now() > deadline => return Err(error.into()),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_seen_only_among_the_arguments() {
        let check = |given: &str, environment: Option<&str>, seen: bool| {
            assert_eq!(is_seen(given, environment), seen, "{given} {environment:?}");
        };
        check("a.b.c", None, true);
        check("a.b.c", Some("x.y.z"), true);
        check("a.b.c", Some("a.b.c"), false);
        check("@join-token", None, false);
    }
}
