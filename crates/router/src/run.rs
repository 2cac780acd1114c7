//! Keeps table, certificates and names in step with the API server, driven by its events.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::runtime::watcher::Config as Watch;
use kube::{Api, Client};
use minik8s_api::dns::Dns;
use minik8s_api::routing::{claims_of_dns, claims_of_ingress, default_backend, service_of};
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, error, warn};

use crate::listen::{Workers, listen};
use crate::proxy::Shared;
use crate::sources::{Name, Source};
use crate::table::{Objects, build};
use crate::{Certificates, Config, HostsFile, Table};

/// Events come in groups: a Service and its slices, the pods of a Deployment.
const GATHER: Duration = Duration::from_millis(5);

/// What others of the agent may look at while the router runs.
#[derive(Debug, Default)]
pub struct Router {
    shared: Arc<Shared>,
    names: watch::Sender<Arc<BTreeSet<String>>>,
}

impl Router {
    /// Hosts that lead to this node's router.
    pub fn names(&self) -> watch::Receiver<Arc<BTreeSet<String>>> {
        self.names.subscribe()
    }

    /// Figures in Prometheus' text format.
    pub fn metrics(&self) -> String {
        self.shared.metrics.page()
    }

    /// For the next request, and for the names that lead here.
    fn apply(&self, table: Table, hosts_file: &HostsFile, config: &Config) {
        if **self.shared.table.borrow() == table {
            return;
        }
        debug!(names = table.names().len(), "applied a new routing table");
        if **self.names.borrow() != *table.names() {
            self.names.send_replace(Arc::new(table.names().clone()));
        }
        if let Err(error) = hosts_file.write(table.names(), config.node_ip) {
            error!(%error, "this node does not resolve names of DNS objects: cannot write {}", config.hosts_file.display());
        }
        self.shared.table.send_replace(Arc::new(table));
    }
}

/// Routes requests until it is told to stop. Fails only if this machine cannot start threads.
pub async fn run(client: Client, config: Config, router: Arc<Router>) -> io::Result<()> {
    let workers = Arc::new(Workers::start(&router.shared, &config.stop)?);
    let _listeners = listeners(&client, &config, &workers);
    drop(workers);
    let mut watched = Watched::start(&client);
    let hosts_file = HostsFile::new(&config.hosts_file, &config.instance);
    let mut problems = Vec::new();
    if let Some(known) = &config.known {
        router.apply(build(known, &config.cluster_domain), &hosts_file, &config);
    }
    loop {
        tokio::select! {
            () = config.stop.cancelled() => return Ok(()),
            () = watched.changed.notified() => tokio::time::sleep(GATHER).await,
        }
        let Some(objects) = watched.objects() else { continue };
        let table = build(&objects, &config.cluster_domain);
        config.memory.send_replace(Arc::new(objects));
        let secrets = watched.secrets(table.certificates().values());
        let (certificates, found) = Certificates::build(table.certificates(), &secrets);
        if found != problems {
            found.iter().for_each(|problem| warn!("{problem}"));
            problems = found;
        }
        router.shared.certificates.send_replace(Arc::new(certificates));
        router.apply(table, &hosts_file, &config);
    }
}

/// A listener per address and port, ended when dropped.
fn listeners(client: &Client, config: &Config, workers: &Arc<Workers>) -> Vec<AbortOnDropHandle<()>> {
    let ports = [("http-port", config.http_port, false), ("https-port", config.https_port, true)];
    let wanted = ports.into_iter().filter(|(_, port, _)| *port != 0);
    let each = wanted.flat_map(|(flag, port, tls)| {
        config.addresses.iter().map(move |ip| (flag, SocketAddr::new(*ip, port), tls))
    });
    each.map(|(flag, address, tls)| {
        let (client, node) = (client.clone(), config.node_name.clone());
        let on_problem = move |problem: &io::Error| {
            let message = format!(
                "cannot listen on {address} ({problem}), so host names and paths are not answered there; free the \
                 port, or start this node with another --{flag}"
            );
            error!("{message}");
            tokio::spawn(tell(client.clone(), node.clone(), message));
        };
        AbortOnDropHandle::new(tokio::spawn(listen(address, tls, workers.clone(), on_problem)))
    })
    .collect()
}

/// An event about the node. Nothing depends on it.
async fn tell(client: Client, node: String, message: String) {
    let now = Timestamp::now();
    let event = Event {
        metadata: ObjectMeta {
            name: Some(format!("{node}.{:x}", now.as_nanosecond())),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.clone()),
            uid: Some(node.clone()),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some("RouterPortInUse".to_owned()),
        message: Some(message),
        source: Some(EventSource { component: Some("router".to_owned()), host: Some(node) }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client, "default");
    if let Err(error) = api.create(&PostParams::default(), &event).await {
        debug!(%error, "cannot write an event");
    }
}

/// Everything the router follows. Services and their slices only once something refers to one: most clusters
/// have many of them and few routes.
struct Watched {
    client: Client,
    changed: Arc<Notify>,
    dns: Source<Dns>,
    ingresses: Source<Ingress>,
    classes: Source<IngressClass>,
    /// The Services that routes refer to.
    wanted: Arc<RwLock<HashSet<Name>>>,
    backends: Option<(Source<Service>, Source<EndpointSlice>)>,
    secrets: BTreeMap<Name, Source<Secret>>,
}

impl Watched {
    fn start(client: &Client) -> Self {
        let changed = Arc::new(Notify::new());
        let all = Watch::default;
        Watched {
            dns: Source::follow(Api::all(client.clone()), all(), changed.clone(), |_| (), |_| true),
            ingresses: Source::follow(Api::all(client.clone()), all(), changed.clone(), |_| (), |_| true),
            classes: Source::follow(Api::all(client.clone()), all(), changed.clone(), |_| (), |_| true),
            wanted: Arc::default(),
            backends: None,
            secrets: BTreeMap::new(),
            client: client.clone(),
            changed,
        }
    }

    /// `None` while something is still missing: half of the objects would take away routes that are right.
    fn objects(&mut self) -> Option<Objects> {
        if !(self.dns.is_complete() && self.ingresses.is_complete() && self.classes.is_complete()) {
            return None;
        }
        let mut objects = Objects {
            dns: self.dns.list(|_| true),
            ingresses: self.ingresses.list(|_| true),
            classes: self.classes.list(|_| true),
            ..Objects::default()
        };
        let wanted = services(&objects);
        if wanted.is_empty() && self.backends.is_none() {
            return Some(objects);
        }
        let client = &self.client;
        let (services, slices) =
            self.backends.get_or_insert_with(|| follow_backends(client, &self.changed, &self.wanted));
        if !(services.is_complete() && slices.is_complete()) {
            *self.wanted.write() = wanted;
            return None;
        }
        objects.services = services.list(|service| wanted.contains(&name_of(&service.metadata)));
        objects.slices = slices.list(|slice| is_of(slice, &wanted));
        *self.wanted.write() = wanted;
        Some(objects)
    }

    /// Follows exactly these, one by one: a node may read a certificate's Secret, not all Secrets.
    fn secrets<'a>(&mut self, wanted: impl Iterator<Item = &'a Name>) -> BTreeMap<Name, Arc<Secret>> {
        let wanted: BTreeSet<&Name> = wanted.collect();
        self.secrets.retain(|name, _| wanted.contains(name));
        let mut found = BTreeMap::new();
        for name in wanted {
            let (client, changed) = (&self.client, &self.changed);
            let source = self.secrets.entry(name.clone()).or_insert_with(|| {
                let one = Watch::default().fields(&format!("metadata.name={}", name.1));
                let api = Api::namespaced(client.clone(), &name.0);
                Source::follow(api, one, changed.clone(), |_| (), |_| true)
            });
            found.extend(source.list(|_| true).into_iter().map(|secret| (name.clone(), secret)));
        }
        found
    }
}

fn follow_backends(
    client: &Client,
    changed: &Arc<Notify>,
    wanted: &Arc<RwLock<HashSet<Name>>>,
) -> (Source<Service>, Source<EndpointSlice>) {
    let (for_services, for_slices) = (wanted.clone(), wanted.clone());
    let services = Source::follow(
        Api::all(client.clone()),
        Watch::default(),
        changed.clone(),
        |service: &mut Service| {
            (service.status, service.metadata.labels, service.metadata.annotations) = (None, None, None);
        },
        move |service| for_services.read().contains(&name_of(&service.metadata)),
    );
    let slices = Source::follow(
        Api::all(client.clone()),
        Watch::default(),
        changed.clone(),
        |slice: &mut EndpointSlice| {
            slice.metadata.annotations = None;
            for endpoint in slice.endpoints.iter_mut().flatten() {
                (endpoint.target_ref, endpoint.hints, endpoint.deprecated_topology) = (None, None, None);
            }
        },
        move |slice| is_of(slice, &for_slices.read()),
    );
    (services, slices)
}

/// Every Service that some route refers to.
fn services(objects: &Objects) -> HashSet<Name> {
    let of_dns = objects.dns.iter().flat_map(|dns| claims_of_dns(dns));
    let of_ingresses = objects.ingresses.iter().flat_map(|ingress| claims_of_ingress(ingress));
    let defaults = objects.ingresses.iter().filter_map(|ingress| default_backend(ingress));
    let targets = of_dns.chain(of_ingresses).chain(defaults).filter_map(|claim| claim.target);
    targets.map(|target| (target.namespace.to_owned(), target.service.to_owned())).collect()
}

fn is_of(slice: &EndpointSlice, services: &HashSet<Name>) -> bool {
    service_of(slice)
        .is_some_and(|(namespace, name)| services.contains(&(namespace.to_owned(), name.to_owned())))
}

fn name_of(meta: &ObjectMeta) -> Name {
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
