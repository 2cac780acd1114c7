//! What routes of the Gateway API with a Service as their parent do with this pod's requests.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use minik8s_meta::gateway::{GatewayBackend, GatewayRule, GatewayTarget};
use minik8s_meta::mesh::MeshGateway;
use minik8s_proxy::gateway::{self, Build, Match, Treatment};
use minik8s_proxy::{Refusal, RequestHead};

use super::rule::{Common, Rule, turns};

/// Matches in the order in which they are tried.
#[derive(Debug)]
pub struct Gamma {
    service: Arc<str>,
    matches: Vec<Match<Arc<gateway::Rule<Rule>>>>,
}

impl Gamma {
    /// A client whose namespace has routes of its own goes by those alone; all others by those of the Service's namespace.
    /// `None` if there are none for it.
    pub fn new(gateway: &MeshGateway, service: &str, namespace: &str) -> Option<Self> {
        let of = |wanted: &str| gateway.clients.iter().find(|one| one.namespace == wanted);
        let clients = of(namespace).or_else(|| of(""))?;
        let builder = Builder { service, targets: targets(gateway) };
        let rules: Vec<_> =
            gateway.rules.iter().map(|rule| Arc::new(gateway::Rule::new(rule, &builder))).collect();
        let matches = clients.matches.iter();
        let matches = matches.filter_map(|wanted| Some(Match::new(wanted, rules.get(wanted.rule)?.clone())));
        Some(Gamma { service: service.into(), matches: matches.collect() })
    }

    pub fn find(&self, head: &RequestHead<'_>) -> Result<&Rule, Refusal> {
        let found = self.matches.iter().find(|wanted| wanted.is_met(head)).map(|wanted| wanted.rule.next());
        found.ok_or_else(|| {
            let text = format!("no route of Service {} matches path {}", self.service, head.path());
            Refusal::new(StatusCode::NOT_FOUND, text)
        })
    }

    /// Of all backends.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.matches.iter().flat_map(|wanted| &wanted.rule.choice.targets)
    }
}

/// Namespace, Service and port.
type Place<'a> = (&'a str, &'a str, i32);

fn targets(gateway: &MeshGateway) -> HashMap<Place<'_>, Arc<[SocketAddr]>> {
    let place = |one: &'_ minik8s_meta::mesh::MeshTarget| turns(&one.endpoints);
    let each = gateway.targets.iter();
    each.map(|one| ((one.namespace.as_str(), one.service.as_str(), one.port), place(one))).collect()
}

struct Builder<'a> {
    service: &'a str,
    targets: HashMap<Place<'a>, Arc<[SocketAddr]>>,
}

impl Build for Builder<'_> {
    type Route = Rule;

    fn route(
        &self,
        rule: &GatewayRule,
        backend: &GatewayBackend,
        timeout: Option<Duration>,
        treatment: Option<Arc<Treatment<Rule>>>,
    ) -> Rule {
        let common = Arc::new(Common::of_gateway(self.service, timeout));
        Rule::all(self.endpoints(&backend.target), common).treated(&rule.route, treatment)
    }

    fn endpoints(&self, target: &GatewayTarget) -> Arc<[SocketAddr]> {
        let place = (target.namespace.as_str(), target.service.as_str(), target.port);
        self.targets.get(&place).cloned().unwrap_or_else(|| [].into())
    }
}
