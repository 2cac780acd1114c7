//! UDP has no end of a connection: the kernel goes on leading a client's packets where it led them before.
//! So what it remembers about a removed endpoint, or about an address from before it was a Service's, is
//! deleted. TCP needs none of this: its clients event, and open connections may drain.

use std::net::IpAddr;
use std::process::Stdio;

use minik8s_meta::IpFamily;
use tokio::process::Command;
use tracing::debug;

use super::{Frontend, Protocol, Route, RouteChanges};

/// Flows to a frontend, to one endpoint of it or to wherever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleFlow {
    pub frontend: Frontend,
    pub endpoint: Option<IpAddr>,
}

pub fn stale_flows(changes: &RouteChanges) -> Vec<StaleFlow> {
    let mut stale = Vec::new();
    for (&frontend, (old, new)) in &changes.frontends {
        if frontend.protocol() != Protocol::Udp {
            continue;
        }
        let endpoints = |route: &Option<Route>| -> Vec<_> {
            let balances = route.iter().flat_map(Route::balances);
            balances.flat_map(|balance| balance.endpoints.iter().copied()).collect()
        };
        let (before, after) = (endpoints(old), endpoints(new));
        // The kernel remembers that nobody led these packets anywhere.
        if before.is_empty() && !after.is_empty() {
            stale.push(StaleFlow { frontend, endpoint: None });
        }
        let gone = before.iter().filter(|endpoint| !after.contains(endpoint));
        stale.extend(gone.map(|endpoint| StaleFlow { frontend, endpoint: Some(endpoint.ip()) }));
    }
    stale.sort_unstable();
    stale.dedup();
    stale
}

/// Does what it can: without the program `conntrack`, stale flows last until they have been silent a while.
pub async fn forget_flows(family: IpFamily, flows: &[StaleFlow]) {
    forget_flows_in(None, family, flows).await;
}

/// The same in a network namespace that `ip netns` knows.
pub async fn forget_flows_in(namespace: Option<&str>, family: IpFamily, flows: &[StaleFlow]) {
    for flow in flows {
        let mut command = match namespace {
            None => Command::new("conntrack"),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace, "conntrack"]);
                command
            }
        };
        command
            .args(arguments(family, flow))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // It fails when there was no such flow, which is the usual case.
        if let Err(error) = command.kill_on_drop(true).status().await {
            debug!(%error, "cannot run conntrack");
            return;
        }
    }
}

fn arguments(family: IpFamily, flow: &StaleFlow) -> Vec<String> {
    let mut arguments = vec!["-D".to_owned(), "-p".to_owned(), flow.frontend.protocol().to_string()];
    if family == IpFamily::V6 {
        arguments.extend(["-f", "ipv6"].map(str::to_owned));
    }
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    match flow.frontend {
        Frontend::Address(address, _, port) => {
            option("--orig-dst", address.to_string());
            option("--orig-port-dst", port.to_string());
        }
        Frontend::NodePort(_, port) => option("--orig-port-dst", port.to_string()),
    }
    if let Some(endpoint) = flow.endpoint {
        option("--reply-src", endpoint.to_string());
    }
    arguments
}
