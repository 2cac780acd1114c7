//! Which connection and which request goes where, as a value: `(what the agent says, the table before) → Table`.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::HeaderValue;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use minik8s_meta::mesh::{MeshEndpoint, MeshPort, MeshRouteSpec, MeshServiceSpec};
use minik8s_proxy::gateway::{Treating, Treats, treat};
use minik8s_proxy::{Answering, Client, Front, Refusal, RequestHead, Secured, Worker};
use tokio::sync::watch;

use super::gamma::Gamma;
use super::rule::{Common, Rule, Share, turns};
use super::tls::Tls;

/// The proxy of a pod as a user of the data path.
#[derive(Debug, Default)]
pub struct Outbound {
    /// Connections whose requests are looked at.
    open: watch::Sender<usize>,
    pub treating: Treating,
}

impl Treats for Outbound {
    fn treating(&self) -> &Treating {
        &self.treating
    }
}

/// Such a connection, for as long as this lives.
pub struct Open<'a>(&'a Outbound);

impl Outbound {
    pub fn opened(&self) -> Open<'_> {
        self.open.send_modify(|count| *count += 1);
        Open(self)
    }

    /// Returns while there is one.
    pub async fn has_open(&self) {
        // It fails only if nobody could ever change it, and then there is none.
        let _ = self.open.subscribe().wait_for(|count| *count > 0).await;
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.send_modify(|count| *count -= 1);
    }
}

/// Looked up for every connection and request, replaced as a whole.
#[derive(Debug, Default)]
pub struct Table {
    services: HashMap<SocketAddr, Arc<Service>>,
    /// Service accounts of pods of the mesh.
    accounts: HashMap<IpAddr, Arc<str>>,
    tls: Option<Arc<Tls>>,
}

/// What is done with a new connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Way {
    /// Its requests are looked at one by one.
    Requests,
    /// The same, unless the server speaks first.
    UnsaidRequests(Vec<SocketAddr>),
    /// The same, unless it turns out not to be HTTP/1.
    PlainRequests(Vec<SocketAddr>),
    /// The same, unless it turns out not to be HTTP/2.
    GrpcRequests(Vec<SocketAddr>),
    /// It goes to one of these as it is, in this order.
    Opaque(Vec<SocketAddr>),
}

#[derive(Debug)]
struct Service {
    kind: Kind,
    rules: Vec<Rule>,
    /// What routes of the Gateway API say; then there are no other rules.
    gateway: Option<Gamma>,
    abort: Option<(Share, StatusCode)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// There are rules about its requests.
    Requests,
    /// The same, but nobody has said that it is HTTP.
    UnsaidRequests,
    /// Nobody has said anything, but that it is HTTP.
    PlainRequests,
    /// Over HTTP/2, on both sides.
    GrpcRequests,
    Opaque,
}

impl Table {
    /// Connections that are open for requests to an address stay so: when nothing is about it any more, their requests go
    /// where they would go without a mesh.
    pub fn new(
        routes: &[MeshRouteSpec],
        plain: &[MeshServiceSpec],
        tls: Option<Arc<Tls>>,
        namespace: &str,
        before: &Table,
    ) -> Self {
        let mut table = Table { tls, ..Table::default() };
        for service in plain {
            for port in &service.ports {
                table.know(&port.endpoints);
                table.insert(&port.addresses, Service::plain(&service.service, port));
            }
        }
        for route in routes {
            route.rules.iter().for_each(|rule| table.know(&rule.endpoints));
            let first = route.addresses.first().and_then(|text| text.parse().ok());
            let known = first.and_then(|address: SocketAddr| before.services.get(&address));
            if route.gateway.is_none() {
                let says_http = route.addresses.iter().any(|address| table.says_http(address));
                table.insert(&route.addresses, Service::new(route, known, says_http));
            }
        }
        // Routes of the Gateway API come before VirtualServices.
        for (route, gateway) in routes.iter().filter_map(|route| Some((route, route.gateway.as_ref()?))) {
            gateway.targets.iter().for_each(|target| table.know(&target.endpoints));
            if let Some(gamma) = Gamma::new(gateway, &route.service, namespace) {
                table.insert(&route.addresses, Service::of_gateway(&route.service, gamma));
            }
        }
        for (address, former) in &before.services {
            if !table.services.contains_key(address) && former.kind != Kind::Opaque {
                table.services.insert(*address, Arc::new(former.freed(*address)));
            }
        }
        table
    }

    fn know(&mut self, endpoints: &[MeshEndpoint]) {
        for endpoint in endpoints {
            let address = endpoint.address.parse::<SocketAddr>().ok();
            if let (Some(account), Some(address)) = (&endpoint.service_account, address) {
                self.accounts.entry(address.ip()).or_insert_with(|| account.as_str().into());
            }
        }
    }

    fn says_http(&self, address: &str) -> bool {
        let known = address.parse().ok().and_then(|address: SocketAddr| self.services.get(&address));
        known.is_some_and(|service| service.kind == Kind::PlainRequests)
    }

    fn insert(&mut self, addresses: &[String], service: Service) {
        let service = Arc::new(service);
        for address in addresses.iter().filter_map(|text| text.parse::<SocketAddr>().ok()) {
            self.services.insert(address, service.clone());
        }
    }

    pub fn way(&self, destination: SocketAddr) -> Way {
        match self.services.get(&destination) {
            None => Way::Opaque(vec![destination]),
            Some(service) => match service.kind {
                Kind::Requests => Way::Requests,
                Kind::UnsaidRequests => Way::UnsaidRequests(service.tries(destination)),
                Kind::PlainRequests => Way::PlainRequests(service.tries(destination)),
                Kind::GrpcRequests => Way::GrpcRequests(service.tries(destination)),
                Kind::Opaque => Way::Opaque(service.tries(destination)),
            },
        }
    }

    /// How to speak to whoever is at that address: with TLS, if it is a pod of the mesh.
    pub fn secured(&self, address: SocketAddr) -> Secured {
        let account = self.accounts.get(&address.ip())?;
        self.tls.as_ref()?.client(account)
    }

    pub fn knows(&self, destination: SocketAddr) -> bool {
        self.services.contains_key(&destination)
    }

    pub fn is_of_mesh(&self, ip: IpAddr) -> bool {
        self.accounts.contains_key(&ip)
    }
}

impl Service {
    fn new(route: &MeshRouteSpec, before: Option<&Arc<Service>>, says_http: bool) -> Self {
        let outlier = before.and_then(|before| before.rules.first()?.common.outlier.as_ref());
        let common = Arc::new(Common::new(route, outlier));
        let abort = route.abort.as_ref().and_then(|abort| {
            let status = StatusCode::from_u16(u16::try_from(abort.status).ok()?).ok()?;
            Some((Share::new(abort.percent), status))
        });
        let kind = match (route.grpc, route.opaque) {
            (true, _) => Kind::GrpcRequests,
            (false, true) => Kind::Opaque,
            (false, false) if says_http => Kind::Requests,
            (false, false) => Kind::UnsaidRequests,
        };
        let rules = route.rules.iter().filter_map(|rule| Rule::new(rule, &common));
        Service {
            kind,
            rules: rules.map(|rule| if route.grpc { rule.over_http2() } else { rule }).collect(),
            gateway: None,
            abort,
        }
    }

    fn plain(name: &str, port: &MeshPort) -> Self {
        let rule = Rule::all(turns(&port.endpoints), Arc::new(Common::plain(name)));
        let (kind, rule) = match (port.grpc, port.http) {
            (true, _) => (Kind::GrpcRequests, rule.over_http2()),
            (false, true) => (Kind::PlainRequests, rule),
            (false, false) => (Kind::Opaque, rule),
        };
        Service { kind, rules: vec![rule], gateway: None, abort: None }
    }

    fn of_gateway(name: &str, gamma: Gamma) -> Self {
        // For what is left of it when the routes go: its name.
        let rule = Rule::all([].into(), Arc::new(Common::plain(name)));
        Service { kind: Kind::Requests, rules: vec![rule], gateway: Some(gamma), abort: None }
    }

    /// All requests to the address itself.
    fn freed(&self, address: SocketAddr) -> Self {
        let service = self.rules.first().map(|rule| rule.common.service.clone()).unwrap_or_else(|| "".into());
        let rule = Rule::all([address].into(), Arc::new(Common::plain(&service)));
        let (kind, rule) = match self.kind {
            Kind::GrpcRequests => (Kind::GrpcRequests, rule.over_http2()),
            Kind::UnsaidRequests => (Kind::UnsaidRequests, rule),
            _ => (Kind::Requests, rule),
        };
        Service { kind, rules: vec![rule], gateway: None, abort: None }
    }

    /// Endpoints in the order of their turns; the Service itself if there are none.
    fn tries(&self, destination: SocketAddr) -> Vec<SocketAddr> {
        let rule = self.rules.iter().find(|rule| rule.is_for_all());
        let tries = rule.map(Rule::tries).unwrap_or_default();
        if tries.is_empty() { vec![destination] } else { tries }
    }
}

impl Front for Outbound {
    type Table = Table;
    type Route = Rule;

    const METRICS: (&'static str, &'static str) = ("minik8s_mesh", "destination_service");
    /// A proxy on the way from pod to pod is not to be seen.
    const SAYS_FORWARDED: bool = false;
    const TRACES: bool = true;

    fn find<'t>(table: &'t Table, client: &Client, head: &RequestHead<'_>) -> Result<&'t Rule, Refusal> {
        let service = client.destination.and_then(|destination| table.services.get(&destination));
        let unavailable = |text: &str| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text);
        let service = service.ok_or_else(|| unavailable("no route leads there any more"))?;
        if let Some((_, status)) = service.abort.as_ref().filter(|(share, _)| share.is_next()) {
            return Err(Refusal::new(*status, "fault injected by a VirtualService"));
        }
        if let Some(gamma) = &service.gateway {
            return gamma.find(head);
        }
        let rule = service.rules.iter().find(|rule| rule.matches(head));
        rule.ok_or_else(|| unavailable("no rule of the VirtualService leads anywhere"))
    }

    fn endpoints(table: &Table) -> HashSet<SocketAddr> {
        let gammas = table.services.values().filter_map(|service| service.gateway.as_ref());
        let rules = table.services.values().flat_map(|service| &service.rules);
        rules.chain(gammas.flat_map(Gamma::rules)).flat_map(|rule| rule.turns.iter().copied()).collect()
    }

    fn secured(table: &Table, address: SocketAddr) -> Secured {
        table.secured(address)
    }

    fn answer<'a>(
        worker: &'a Worker<Self>,
        rule: &'a Rule,
        host: HeaderValue,
        client: &'a Client,
        request: Request<Incoming>,
    ) -> Answering<'a> {
        let chosen = rule.treatment.as_ref().and_then(|treatment| treatment.choice.as_ref());
        let rule = chosen.map_or(rule, |choice| choice.next());
        let Some(treatment) = &rule.treatment else {
            return Box::pin(async {
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "no rule answers itself"))
            });
        };
        let port = client.destination.map(|destination| destination.port());
        Box::pin(treat(worker, (rule, &**treatment), host, (client, port), request))
    }
}

#[cfg(test)]
mod tests;
