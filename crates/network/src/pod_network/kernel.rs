//! Reads the links of this machine and changes them, through `ip` and `bridge` of iproute2.
//!
//! Programs and not netlink messages: what is done can be read, repeated by hand and printed in a golden test.

use std::io;
use std::net::IpAddr;
use std::process::{Output, Stdio};

use ipnet::IpNet;
use minik8s_meta::IpFamily;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::changes::{Changes, ROUTE_PROTOCOL};
use super::{Links, Owner, Route, Uplink, Vxlan};

#[derive(Debug, Error)]
pub enum KernelError {
    #[error("cannot run {program}: install the package iproute2")]
    Missing { program: &'static str, source: io::Error },
    #[error("`{command}` failed: {message}")]
    Refused { command: String, message: String },
    #[error("cannot understand what `{command}` says")]
    Unclear { command: String, source: serde_json::Error },
    #[error(
        "this kernel has no VXLAN ({0}): load it with `modprobe vxlan`, or use --network-backend host-gw where all nodes \
         share a link"
    )]
    NoVxlan(String),
    #[error("no interface has the node's address {0}: give the node an address of this machine")]
    NoUplink(IpAddr),
}

/// The network namespace of this process, or the named one.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// As `ip netns` knows it.
    pub namespace: Option<String>,
}

/// One interface, as `ip -json address` tells it.
#[derive(Debug, Deserialize)]
pub(super) struct Interface {
    #[serde(default)]
    pub ifindex: u32,
    pub ifname: String,
    #[serde(default)]
    mtu: u32,
    #[serde(default)]
    operstate: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    addr_info: Vec<Address>,
    #[serde(default)]
    linkinfo: LinkInfo,
}

#[derive(Debug, Deserialize)]
struct Address {
    local: String,
    prefixlen: u8,
}

#[derive(Debug, Default, Deserialize)]
struct LinkInfo {
    #[serde(default)]
    info_data: VxlanInfo,
}

/// Other kinds of devices have fields of these names, too, with values of their own.
#[derive(Debug, Default, Deserialize)]
struct VxlanInfo {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    port: Value,
    #[serde(default)]
    local: Value,
    #[serde(default)]
    local6: Value,
}

#[derive(Debug, Deserialize)]
struct FoundRoute {
    dst: String,
    gateway: Option<IpAddr>,
    dev: Option<String>,
    metric: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Neighbour {
    dst: String,
    lladdr: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Forwarding {
    mac: String,
    dst: Option<String>,
}

impl Kernel {
    /// The links that this agent, or a former run of it, made.
    pub async fn links(&self, owner: &Owner) -> Result<Links, KernelError> {
        let protocol = ROUTE_PROTOCOL.to_string();
        let mut found: Vec<FoundRoute> = Vec::new();
        for family in families() {
            let of_family: Vec<FoundRoute> =
                self.list("ip", &[family, "route", "show", "proto", &protocol]).await?;
            found.extend(of_family);
        }
        let route = |found: FoundRoute| {
            if found.metric != Some(owner.metric) {
                return None;
            }
            Some((found.dst.parse().ok()?, Route { via: found.gateway?, device: found.dev? }))
        };
        let mut links = Links { routes: found.into_iter().filter_map(route).collect(), ..Links::default() };
        let Some(device) = self.interfaces().await?.into_iter().find(|one| one.ifname == owner.tunnel) else {
            return Ok(links);
        };
        links.vxlan = Some(device.vxlan());
        let mut neighbours: Vec<Neighbour> = Vec::new();
        for family in families() {
            let on_tunnel = [family, "neigh", "show", "dev", &owner.tunnel, "nud", "permanent"];
            let of_family: Vec<Neighbour> = self.list("ip", &on_tunnel).await?;
            neighbours.extend(of_family);
        }
        let neighbour = |found: Neighbour| Some((found.dst.parse().ok()?, found.lladdr?.parse().ok()?));
        links.neighbours = neighbours.into_iter().filter_map(neighbour).collect();
        let forwarding: Vec<Forwarding> = self.list("bridge", &["fdb", "show", "dev", &owner.tunnel]).await?;
        let entry = |found: Forwarding| Some((found.mac.parse().ok()?, found.dst?.parse().ok()?));
        links.forwarding = forwarding.into_iter().filter_map(entry).collect();
        Ok(links)
    }

    pub async fn apply(&self, changes: &Changes) -> Result<(), KernelError> {
        self.batch("ip", &changes.device).await.map_err(KernelError::about_tunnel)?;
        self.batch("bridge", &changes.forwarding).await?;
        self.batch("ip", &changes.routes).await
    }

    /// The interface with that address.
    pub async fn uplink(&self, address: IpAddr) -> Result<Uplink, KernelError> {
        let interfaces = self.interfaces().await?;
        let found = interfaces.into_iter().find_map(|one| {
            let network = one.networks().find(|network| network.addr() == address)?;
            Some(Uplink { device: one.ifname, address, network: network.trunc(), mtu: one.mtu })
        });
        found.ok_or(KernelError::NoUplink(address))
    }

    pub(super) async fn interfaces(&self) -> Result<Vec<Interface>, KernelError> {
        self.list("ip", &["-details", "address", "show"]).await
    }

    /// Removes all links of a stopped agent.
    pub async fn clear(&self, owner: &Owner) -> Result<(), KernelError> {
        let seen = self.links(owner).await?;
        self.apply(&super::changes(&seen, &Links::default(), owner)).await
    }

    async fn list<T: DeserializeOwned>(
        &self,
        program: &'static str,
        args: &[&str],
    ) -> Result<Vec<T>, KernelError> {
        let args: Vec<&str> = std::iter::once("-json").chain(args.iter().copied()).collect();
        let output = self.run(program, &args, "").await?;
        // Nothing found is sometimes no list at all.
        if output.stdout.iter().all(u8::is_ascii_whitespace) {
            return Ok(Vec::new());
        }
        serde_json::from_slice(&output.stdout).map_err(|source| KernelError::Unclear {
            command: format!("{program} {}", args.join(" ")),
            source,
        })
    }

    async fn batch(&self, program: &'static str, lines: &str) -> Result<(), KernelError> {
        if lines.is_empty() {
            return Ok(());
        }
        self.run(program, &["-batch", "-"], lines).await.map(drop)
    }

    async fn run(&self, program: &'static str, args: &[&str], input: &str) -> Result<Output, KernelError> {
        let mut command = Command::new(program);
        if let Some(namespace) = &self.namespace {
            command.args(["-netns", namespace]);
        }
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let missing = |source| KernelError::Missing { program, source };
        let mut child = command.kill_on_drop(true).spawn().map_err(missing)?;
        let stdin = child.stdin.take();
        let write = async move {
            if let Some(mut stdin) = stdin {
                // If it ends before it has read everything, its error output tells why.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let ((), output) = tokio::join!(write, child.wait_with_output());
        let output = output.map_err(missing)?;
        if output.status.success() {
            return Ok(output);
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        let command = if input.is_empty() { args.join(" ") } else { input.trim().replace('\n', "; ") };
        Err(KernelError::Refused { command: format!("{program} {command}"), message })
    }
}

/// Those of this machine, as `ip` calls them.
fn families() -> impl Iterator<Item = &'static str> {
    crate::run::machine_families().map(|family| match family {
        IpFamily::V4 => "-4",
        IpFamily::V6 => "-6",
    })
}

impl KernelError {
    /// Of the commands that make the tunnel.
    fn about_tunnel(self) -> Self {
        match self {
            KernelError::Refused { message, .. }
                if ["Unknown device type", "not supported"].iter().any(|text| message.contains(text)) =>
            {
                KernelError::NoVxlan(message)
            }
            other => other,
        }
    }
}

impl Interface {
    /// A cable that is not plugged in, a bridge without ports.
    pub(super) fn is_idle(&self) -> bool {
        self.operstate == "DOWN"
    }

    /// Its addresses, with the networks they are in. Every interface has an IPv6 address of its link, which leads nowhere
    /// else.
    pub(super) fn networks(&self) -> impl Iterator<Item = IpNet> {
        let parse = |one: &Address| IpNet::new(one.local.parse().ok()?, one.prefixlen).ok();
        let is_far = |network: &IpNet| match network {
            IpNet::V4(_) => true,
            IpNet::V6(network) => !network.addr().is_unicast_link_local(),
        };
        self.addr_info.iter().filter_map(parse).filter(is_far)
    }

    /// What cannot be read is left at values that nobody wants: then the device is made anew.
    fn vxlan(&self) -> Vxlan {
        let info = &self.linkinfo.info_data;
        let number = |value: &Value| value.as_u64();
        let local = [&info.local, &info.local6].into_iter().find_map(|value| value.as_str()?.parse().ok());
        let is_up = self.flags.iter().any(|flag| flag == "UP");
        Vxlan {
            id: number(&info.id).and_then(|id| id.try_into().ok()).filter(|_| is_up).unwrap_or_default(),
            port: number(&info.port).and_then(|port| port.try_into().ok()).unwrap_or_default(),
            local: local.unwrap_or(IpAddr::from([0u8; 4])),
            mac: self.address.parse().unwrap_or(super::Mac([0; 6])),
            mtu: self.mtu,
            addresses: self.networks().map(|network| network.addr()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_tunnels() {
        let check = |message: &str, expected: &str| {
            let refused =
                KernelError::Refused { command: "ip link add".to_owned(), message: message.to_owned() };
            let text = refused.about_tunnel().to_string();
            assert!(text.contains(expected), "{text}");
        };
        check("Error: Unknown device type.", "(Error: Unknown device type.): load it with `modprobe vxlan`");
        check("RTNETLINK answers: Operation not supported", "or use --network-backend host-gw");
        check("RTNETLINK answers: File exists", "`ip link add` failed: RTNETLINK answers: File exists");
    }
}
