//! Keeps table, certificates and names in step with the API server, driven by its events.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_informer::{ApiAccess, Caches, EventType, Kind, ListOptions, Recorder, Regarding};
use minik8s_meta::dns::Dns;
use minik8s_meta::function::FunctionEndpoints;
use minik8s_meta::function_call::FunctionCall;
use minik8s_meta::gateway::GatewayConfig;
use minik8s_meta::routing::{claims_of_dns, claims_of_ingress, default_backend, service_of};
use minik8s_telemetry::Tracer;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, error, warn};

use crate::gate::report;
use crate::gateway::acks::Acks;
use crate::gateway::{self, Protocol, udp};
use crate::invocation;
use crate::listen::{Entrance, Workers, listen};
use crate::proxy::Shared;
use crate::sources::{Name, Sight, Source};
use crate::table::{Objects, build};
use crate::{Certificates, Config, HostsFile, Table};

/// Events come in groups: a Service and its slices, the pods of a Deployment.
const GATHER: Duration = Duration::from_millis(5);
/// Until the next try after a port was taken.
const UDP_RETRY: Duration = Duration::from_secs(3);

/// What others of the agent may look at while the router runs.
#[derive(Debug, Default)]
pub struct Router {
    shared: Arc<Shared>,
    names: watch::Sender<Arc<BTreeSet<String>>>,
    runtimes: watch::Sender<Arc<BTreeSet<String>>>,
}

impl Router {
    /// Hosts that lead to this node's router.
    pub fn names(&self) -> watch::Receiver<Arc<BTreeSet<String>>> {
        self.names.subscribe()
    }

    /// Runtimes that functions of the cluster use.
    pub fn runtimes(&self) -> watch::Receiver<Arc<BTreeSet<String>>> {
        self.runtimes.subscribe()
    }

    fn apply_functions(&self, functions: &[Arc<FunctionEndpoints>], config: &Config) {
        self.shared.gates.apply(functions.iter().map(AsRef::as_ref), &config.node_name);
        let runtimes: BTreeSet<&str> =
            functions.iter().filter_map(|function| function.spec.runtime.as_deref()).collect();
        self.runtimes.send_if_modified(|known| {
            let is_same = known.iter().map(String::as_str).eq(runtimes.iter().copied());
            if !is_same {
                *known = Arc::new(runtimes.iter().map(|name| (*name).to_owned()).collect());
            }
            !is_same
        });
    }

    /// Tells of requests from now on. Only the first call counts.
    pub fn trace(&self, tracer: Tracer) {
        let _ = self.shared.tracer.set(tracer);
    }

    /// The last calls of a function at this router, newest first; of one that it does not know, none.
    pub fn calls(&self, namespace: &str, function: &str) -> Vec<FunctionCall> {
        let gate = self.shared.gates.get(&(namespace.to_owned(), function.to_owned()));
        gate.map(|gate| gate.calls()).unwrap_or_default()
    }

    /// Figures in Prometheus' text format.
    pub fn metrics(&self) -> String {
        self.shared.metrics.page() + &self.shared.gates.page()
    }

    /// For the next request, and for the names that lead here.
    fn apply(&self, table: Table, hosts_file: &HostsFile, config: &Config) {
        if **self.shared.table.borrow() == table {
            return;
        }
        debug!(names = table.names().len(), "applied a new routing table");
        // A machine that joins may have a name that was claimed before.
        let names: BTreeSet<String> =
            table.names().iter().filter(|name| **name != config.node_name).cloned().collect();
        let written = hosts_file.write(&names, config.node_ip);
        if **self.names.borrow() != names {
            self.names.send_replace(Arc::new(names));
        }
        if let Err(error) = written {
            error!(%error, "this node does not resolve names of DNS objects: cannot write {}", config.hosts_file.display());
        }
        self.shared.table.send_replace(Arc::new(table));
    }
}

/// The kinds that a node must know of to route while no server answers. Certificates are not among them: keys of users stay
/// out of the node's files, so HTTPS waits for the API server.
pub fn checkpointed() -> Vec<Kind> {
    vec![
        Kind::of::<Dns>(),
        Kind::of::<Ingress>(),
        Kind::of::<IngressClass>(),
        Kind::of::<FunctionEndpoints>(),
        Kind::of::<GatewayConfig>(),
        Kind::of::<Service>(),
        Kind::of::<EndpointSlice>(),
    ]
}

/// Routes requests until it is told to stop. Fails if this machine cannot start threads, or if one of them ends.
pub async fn run(access: ApiAccess, config: Config, router: Arc<Router>) -> io::Result<()> {
    let ApiAccess { client, caches, recorder } = access;
    let workers = Arc::new(Workers::start(&router.shared, &config.stop)?);
    let ended = workers.ended();
    // Until a table is there nobody is let in: whoever finds no router goes to another, a wrong 404 is believed.
    let mut of_node = Vec::new();
    let mut of_gateways = GatewayListeners::new(&recorder, &config, &workers, &router.shared);
    let mut watched = Watched::start(&caches);
    let hosts_file = HostsFile::new(&config.hosts_file, &config.instance, &config.hosts_kept);
    let mut problems = Vec::new();
    let mut led = config.led.clone();
    let _reports = AbortOnDropHandle::new(tokio::spawn({
        let (shared, client, node) = (router.shared.clone(), client.clone(), config.node_name.clone());
        async move { report(&shared.gates, &client, &node).await }
    }));
    let _acks = AbortOnDropHandle::new(tokio::spawn({
        let (acks, client, node) = (of_gateways.acks.clone(), client.clone(), config.node_name.clone());
        async move { acks.report(&client, &node).await }
    }));
    let _calls = AbortOnDropHandle::new(tokio::spawn({
        let (shared, client, config) = (router.shared.clone(), client.clone(), config.clone());
        async move { invocation::run(&client, &caches, &config, &shared).await }
    }));
    loop {
        tokio::select! {
            biased;
            () = config.stop.cancelled() => return Ok(()),
            () = ended.cancelled() => return Err(io::Error::other("a thread that serves connections has ended")),
            () = watched.changed.notified() => {
                // Requests wait for instances: those do not wait for more events.
                if let Some(functions) = watched.functions() {
                    router.apply_functions(&functions, &config);
                }
                tokio::time::sleep(GATHER).await;
            }
            Ok(()) = led.changed() => {}
        }
        let Some(mut objects) = watched.objects() else { continue };
        objects.led = led.borrow_and_update().clone();
        router.apply_functions(&objects.functions, &config);
        let table = build(&objects, &config.cluster_domain);
        let of_ports = gateway::certificates(&table.gateways);
        let at_ports = of_ports.values().flatten().flat_map(|(_, names)| names);
        let to_backends = gateway::backend_certificates(&objects.gateways);
        let secrets = watched.secrets(table.certificates().values().chain(at_ports).chain(&to_backends));
        let (certificates, found) =
            Certificates::build(table.certificates(), &of_ports, &to_backends, &secrets);
        if found != problems {
            found.iter().for_each(|problem| warn!("{problem}"));
            problems = found;
        }
        *router.shared.treating.certificates.lock() = certificates.to_backends.clone();
        router.shared.certificates.send_replace(Arc::new(certificates));
        let endpoints = table.gateways.endpoints();
        router.shared.treating.h2c.retain(|address| endpoints.contains(address));
        router.apply(table, &hosts_file, &config);
        of_gateways.apply();
        of_gateways.acks.want(&objects.gateways);
        if of_node.is_empty() {
            of_node = listeners(&recorder, &config, &workers);
        }
    }
}

/// A listener per address and port, ended when dropped.
fn listeners(recorder: &Recorder, config: &Config, workers: &Arc<Workers>) -> Vec<AbortOnDropHandle<()>> {
    let ports =
        [("http-port", config.http_port, Entrance::Http), ("https-port", config.https_port, Entrance::Https)];
    let wanted = ports.into_iter().filter(|(_, port, _)| *port != 0);
    let each = wanted.flat_map(|(flag, port, entrance)| {
        config.addresses.iter().map(move |ip| (flag, SocketAddr::new(*ip, port), entrance))
    });
    each.map(|(flag, address, entrance)| {
        let (recorder, node) = (recorder.clone(), Regarding::node(&config.node_name));
        let on_state = move |problem: Option<&io::Error>| {
            let Some(problem) = problem else { return };
            let message = format!(
                "cannot listen on {address} ({problem}), so host names and paths are not answered there; free the \
                 port, or start this node with another --{flag}"
            );
            error!("{message}");
            recorder.report("router", node.clone(), EventType::Warning, "RouterPortInUse", &message);
        };
        AbortOnDropHandle::new(tokio::spawn(listen(address, entrance, workers.clone(), on_state)))
    })
    .collect()
}

/// Listeners of Gateways' ports, which come and go.
struct GatewayListeners {
    recorder: Recorder,
    node: String,
    ip: IpAddr,
    workers: Arc<Workers>,
    shared: Arc<Shared>,
    acks: Arc<Acks>,
    running: BTreeMap<(u16, bool), AbortOnDropHandle<()>>,
}

impl GatewayListeners {
    fn new(recorder: &Recorder, config: &Config, workers: &Arc<Workers>, shared: &Arc<Shared>) -> Self {
        GatewayListeners {
            recorder: recorder.clone(),
            node: config.node_name.clone(),
            ip: config.node_ip,
            workers: workers.clone(),
            shared: shared.clone(),
            acks: Arc::default(),
            running: BTreeMap::new(),
        }
    }

    /// As the table is now. Connections under way are not touched.
    fn apply(&mut self) {
        let table = self.shared.table.borrow().clone();
        let wanted: BTreeSet<(u16, bool)> =
            table.gateways.ports.iter().map(|(port, of)| (*port, of.protocol == Protocol::Udp)).collect();
        self.running.retain(|place, _| wanted.contains(place));
        self.acks.retain(&wanted);
        for place in wanted {
            if !self.running.contains_key(&place) {
                let started = self.start(place.0, place.1);
                self.running.insert(place, started);
            }
        }
    }

    fn start(&self, port: u16, is_udp: bool) -> AbortOnDropHandle<()> {
        let address = SocketAddr::new(self.ip, port);
        let (recorder, node) = (self.recorder.clone(), Regarding::node(&self.node));
        let acks = self.acks.clone();
        let on_state = move |problem: Option<&io::Error>| {
            acks.listens((port, is_udp), problem);
            let Some(problem) = problem else { return };
            let message =
                format!("cannot listen on {address} ({problem}), so a Gateway is not answered here");
            error!("{message}");
            recorder.report("router", node.clone(), EventType::Warning, "RouterPortInUse", &message);
        };
        let (workers, shared) = (self.workers.clone(), self.shared.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            if is_udp {
                return serve_udp(address, shared, on_state).await;
            }
            listen(address, Entrance::Gateway(address), workers, on_state).await;
        }))
    }
}

async fn serve_udp(address: SocketAddr, shared: Arc<Shared>, on_state: impl Fn(Option<&io::Error>)) {
    loop {
        if let Err(error) = udp::serve(address, shared.clone(), || on_state(None)).await {
            on_state(Some(&error));
        }
        tokio::time::sleep(UDP_RETRY).await;
    }
}

/// Everything the router follows.
struct Watched {
    caches: Arc<Caches>,
    changed: Arc<Notify>,
    dns: Source<Dns>,
    ingresses: Source<Ingress>,
    classes: Source<IngressClass>,
    functions: Source<FunctionEndpoints>,
    gateways: Source<GatewayConfig>,
    services: Source<Service>,
    slices: Source<EndpointSlice>,
    /// The Services that routes refer to.
    wanted: Arc<RwLock<HashSet<Name>>>,
    secrets: BTreeMap<Name, Source<Secret>>,
    /// Something was there to build a table of.
    is_begun: bool,
}

impl Watched {
    fn start(caches: &Arc<Caches>) -> Self {
        let changed = Arc::new(Notify::new());
        let wanted = Arc::<RwLock<HashSet<Name>>>::default();
        let (for_services, for_slices) = (wanted.clone(), wanted.clone());
        let of_wanted = move |service: &Service| for_services.read().contains(&name_of(&service.metadata));
        let all = ListOptions::default;
        Watched {
            dns: Source::follow(caches, all(), changed.clone(), |_| true),
            ingresses: Source::follow(caches, all(), changed.clone(), |_| true),
            classes: Source::follow(caches, all(), changed.clone(), |_| true),
            functions: Source::follow(caches, all(), changed.clone(), |_| true),
            gateways: Source::follow(caches, all(), changed.clone(), |_| true),
            services: Source::follow(caches, all(), changed.clone(), of_wanted),
            slices: Source::follow(caches, all(), changed.clone(), move |slice| {
                is_of(slice, &for_slices.read())
            }),
            wanted,
            secrets: BTreeMap::new(),
            is_begun: false,
            caches: caches.clone(),
            changed,
        }
    }

    /// `None` while there is no table that leads to them, or the server has not told of them all.
    fn functions(&self) -> Option<Vec<Arc<FunctionEndpoints>>> {
        let are_known = self.is_begun && self.functions.sight() == Sight::Synced;
        are_known.then(|| self.functions.list(|_| true))
    }

    /// `None` while something is still missing: half of the objects would take away routes that are right.
    fn objects(&mut self) -> Option<Objects> {
        let always = [
            self.dns.sight(),
            self.ingresses.sight(),
            self.classes.sight(),
            self.services.sight(),
            self.slices.sight(),
        ];
        if !is_enough(&always, &[self.functions.sight(), self.gateways.sight()], self.is_begun) {
            return None;
        }
        self.is_begun = true;
        let mut objects = Objects {
            dns: self.dns.list(|_| true),
            ingresses: self.ingresses.list(|_| true),
            classes: self.classes.list(|_| true),
            functions: self.functions.list(|_| true),
            gateways: self.gateways.list(|_| true),
            ..Objects::default()
        };
        let wanted = services(&objects);
        // Before they are looked at: what changes from here on matters.
        self.wanted.write().clone_from(&wanted);
        objects.services = wanted.iter().filter_map(|service| self.services.get(service)).collect();
        objects.slices = self.slices.list(|slice| is_of(slice, &wanted));
        Some(objects)
    }

    /// Follows exactly these, one by one and by type: a node may read a certificate's Secret, not all Secrets.
    fn secrets<'a>(&mut self, wanted: impl Iterator<Item = &'a Name>) -> BTreeMap<Name, Arc<Secret>> {
        let wanted: BTreeSet<&Name> = wanted.collect();
        self.secrets.retain(|name, _| wanted.contains(name));
        let mut found = BTreeMap::new();
        for name in wanted {
            let (caches, changed) = (&self.caches, &self.changed);
            let source = self.secrets.entry(name.clone()).or_insert_with(|| {
                let one = format!("metadata.name={},type=kubernetes.io/tls", name.1);
                Source::follow(caches, ListOptions::fields(one).within(&name.0), changed.clone(), |_| true)
            });
            found.extend(source.get(name).map(|secret| (name.clone(), secret)));
        }
        found
    }
}

/// Whether a table can be made of it. What a former run knew is good enough to begin with; it remembers nothing of features
/// that the server did not have, so those are waited for once the server answers.
fn is_enough(always: &[Sight], features: &[Sight], is_begun: bool) -> bool {
    let least = if is_begun { Sight::Synced } else { Sight::Checkpointed };
    let is_alone = !is_begun && always.iter().all(|sight| *sight == Sight::Checkpointed);
    always.iter().all(|sight| *sight >= least)
        && features.iter().all(|sight| *sight >= least || is_alone && *sight == Sight::Nothing)
}

/// Every Service that some route refers to.
fn services(objects: &Objects) -> HashSet<Name> {
    let of_dns = objects.dns.iter().flat_map(|dns| claims_of_dns(dns));
    let of_ingresses = objects.ingresses.iter().flat_map(|ingress| claims_of_ingress(ingress));
    let defaults = objects.ingresses.iter().filter_map(|ingress| default_backend(ingress));
    let targets = of_dns.chain(of_ingresses).chain(defaults).filter_map(|claim| claim.target);
    let named = targets.map(|target| (target.namespace.to_owned(), target.service.to_owned()));
    named.chain(objects.gateways.iter().flat_map(|config| gateway::services(config))).collect()
}

fn is_of(slice: &EndpointSlice, services: &HashSet<Name>) -> bool {
    service_of(slice)
        .is_some_and(|(namespace, name)| services.contains(&(namespace.to_owned(), name.to_owned())))
}

fn name_of(meta: &ObjectMeta) -> Name {
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_waits_for_every_kind() {
        use Sight::{Checkpointed, Nothing, Synced};
        for (always, features, is_begun, expected) in [
            ([Nothing, Nothing], Nothing, false, false),
            ([Synced, Nothing], Synced, false, false),
            // The server answers, and may have functions that are not told yet.
            ([Synced, Synced], Nothing, false, false),
            ([Synced, Checkpointed], Nothing, false, false),
            ([Synced, Synced], Synced, false, true),
            // No server: what the last run knew, of a server without functions too.
            ([Checkpointed, Checkpointed], Checkpointed, false, true),
            ([Checkpointed, Checkpointed], Nothing, false, true),
            ([Synced, Checkpointed], Checkpointed, false, true),
            // Half of it from the server, half from before.
            ([Synced, Checkpointed], Synced, true, false),
            ([Synced, Synced], Checkpointed, true, false),
            ([Synced, Synced], Synced, true, true),
        ] {
            assert_eq!(
                is_enough(&always, &[features], is_begun),
                expected,
                "{always:?} {features:?} {is_begun}"
            );
        }
    }
}
