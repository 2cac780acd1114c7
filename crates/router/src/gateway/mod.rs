//! Gateways as the router of a node serves them: ports with listeners, hosts, matches and rules, as values.
//!
//! Who may attach, refer and listen was decided by the controller, whose GatewayConfigs are all that is looked at here,
//! with the endpoints of Services. Each Gateway has ports of its own on every node, to which its address leads; hosts that
//! are public are answered at the node's own ports, too, after those of DNS objects and Ingresses.

pub mod acks;
mod build;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod udp;

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use http::StatusCode;
use minik8s_meta::gateway::host_matches;
use minik8s_proxy::gateway::Match;
use minik8s_proxy::{Refusal, RequestHead};

use crate::table::{Route, SecretName};

pub use build::{backend_certificates, build, certificates, services};

pub type Rule = minik8s_proxy::gateway::Rule<Route>;
pub type Treatment = minik8s_proxy::gateway::Treatment<Route>;

/// All Gateways.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gateways {
    /// By the routers' port.
    pub ports: BTreeMap<u16, Arc<Port>>,
    /// Hosts that are answered at the node's own ports, without TLS and with it: the most specific first.
    pub public: [Vec<PublicHost>; 2],
}

/// A port of a Gateway.
#[derive(Debug, PartialEq)]
pub struct Port {
    /// As the Gateway calls it.
    pub number: u16,
    pub protocol: Protocol,
    /// The most specific first.
    pub listeners: Vec<Listener>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http,
    Tls,
    Tcp,
    Udp,
}

/// What is done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Its requests are led.
    Http,
    /// It is TLS, and goes to a backend as it is.
    Passthrough,
    /// It goes to a backend, without TLS.
    Stream,
}

#[derive(Debug, PartialEq)]
pub struct Listener {
    pub hostname: String,
    pub mode: Mode,
    pub certificates: Vec<SecretName>,
    /// What clients have to show.
    pub clients: Option<Arc<Clients>>,
    /// The most specific first.
    pub hosts: Vec<Arc<Host>>,
}

/// Which certificates of clients are good.
#[derive(Debug, PartialEq, Eq)]
pub struct Clients {
    /// In PEM.
    pub authorities: String,
    /// Whoever has another certificate, or none, is let in as well.
    pub insecure_fallback: bool,
}

#[derive(Debug, PartialEq)]
pub struct Host {
    pub hostname: String,
    matches: Vec<Match<Arc<Rule>>>,
}

/// A host at the node's own ports.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicHost {
    /// Of the Gateway, whose the host is if it has a name.
    pub namespace: String,
    pub created: String,
    pub certificates: Vec<SecretName>,
    pub host: Arc<Host>,
}

impl Port {
    /// The listener of a host, as requests and TLS name it.
    pub fn listener(&self, host: &str) -> Option<&Listener> {
        self.listeners.iter().find(|listener| host_matches(&listener.hostname, host))
    }

    /// The route of a request, whose host is in lower case and without a port.
    pub fn find(
        &self,
        host: &str,
        server_name: Option<&str>,
        head: &RequestHead<'_>,
    ) -> Result<&Route, Refusal> {
        let listener = self.listener(host).filter(|listener| listener.mode == Mode::Http);
        // Whoever has shown a certificate for one name does not answer for another listener's.
        if let Some(name) = server_name
            && self.listener(name).map(|one| &one.hostname) != listener.map(|one| &one.hostname)
        {
            let text = format!("the connection is for {name}, not for {host}");
            return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, text));
        }
        let found = listener.and_then(|listener| find_in(&listener.hosts, host, head));
        found.ok_or_else(|| {
            let text = format!("nothing is routed at host {host}, path {}", head.path());
            Refusal::new(StatusCode::NOT_FOUND, text)
        })
    }

    /// Where a connection goes that is not looked into.
    pub fn stream(&self, host: &str) -> Option<&Route> {
        let listener = self.listener(host)?;
        let host = listener.hosts.iter().find(|one| host_matches(&one.hostname, host))?;
        host.matches.first().map(|wanted| wanted.rule.choice.next())
    }
}

impl Gateways {
    pub fn port(&self, number: u16) -> Option<&Arc<Port>> {
        self.ports.get(&number)
    }

    /// What is said of a host at the node's own ports, the most specific first.
    pub fn public_hosts<'h>(&'h self, tls: bool, host: &str) -> impl Iterator<Item = &'h PublicHost> {
        self.public[usize::from(tls)].iter().filter(move |one| host_matches(&one.host.hostname, host))
    }

    pub fn endpoints(&self) -> HashSet<SocketAddr> {
        let hosts = self.ports.values().flat_map(|port| &port.listeners).flat_map(|listener| &listener.hosts);
        let routes = hosts.flat_map(|host| &host.matches).flat_map(|wanted| &wanted.rule.choice.targets);
        routes
            .filter_map(|route| route.backend.endpoints.as_ref().ok())
            .flat_map(|all| all.iter().copied())
            .collect()
    }
}

impl Host {
    pub fn find(&self, head: &RequestHead<'_>) -> Option<&Route> {
        self.matches.iter().find(|wanted| wanted.is_met(head)).map(|wanted| wanted.rule.next())
    }
}

fn find_in<'h>(hosts: &'h [Arc<Host>], host: &str, head: &RequestHead<'_>) -> Option<&'h Route> {
    let fitting = hosts.iter().filter(|one| host_matches(&one.hostname, host));
    fitting.flat_map(|one| one.find(head)).next()
}
