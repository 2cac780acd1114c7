//! A cluster without machines, of the test's own.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use minik8s::features::ServerFeatures;
use minik8s_apiserver::{Config, Server};
use minik8s_auth::User;
use minik8s_auth::pki::{Pki, ServingNames};
use minik8s_controllers::simulate;
use minik8s_runtime::Caches;
use minik8s_store::{Options, RedbStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Nothing here takes longer, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);
pub const NAMESPACE: &str = "default";

/// What objects of namespaces have in common for these tests.
pub trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
    + Send
    + 'static
{
}

impl<K> Namespaced for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + 'static
{
}

pub struct Cluster {
    pub client: Client,
    server: Server,
    control: Control,
    /// Ended when dropped.
    _nodes: Control,
    /// Last, so that it outlives the store.
    _dir: TempDir,
}

/// Tasks with a stop of their own.
struct Control {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Cluster {
    /// With two nodes.
    pub async fn start() -> Cluster {
        Cluster::with_nodes(2).await
    }

    pub async fn with_nodes(count: usize) -> Cluster {
        Cluster::with_features(count, all_features()).await
    }

    pub async fn with_features(count: usize, features: ServerFeatures) -> Cluster {
        let dir = TempDir::with_prefix("minik8s-workloads-").unwrap();
        let server = serve(dir.path(), &features).await;
        let client = client(&server, "admin");
        let control = control(&server, features);
        let mut nodes = Control { stop: CancellationToken::new(), tasks: JoinSet::new() };
        let config = simulate::Config { nodes: count, pods_per_node: 110, stop: nodes.stop.clone() };
        nodes.tasks.spawn(simulate::run(super::cluster::client(&server, "simulation"), config));
        let cluster = Cluster { client, server, control, _nodes: nodes, _dir: dir };
        cluster.until_account(NAMESPACE).await;
        cluster
    }

    /// Kills controllers and scheduler in the middle of whatever they do; all they know is lost.
    pub fn kill_control(&mut self) {
        self.control.tasks.abort_all();
        self.control.stop.cancel();
    }

    /// Starts them anew.
    pub fn restart_control(&mut self) {
        self.control = control(&self.server, all_features());
    }

    pub fn api<K: Namespaced>(&self) -> Api<K> {
        self.api_in(NAMESPACE)
    }

    pub fn api_in<K: Namespaced>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates an object that must be accepted.
    pub async fn create<K: Namespaced>(&self, object: Value) -> K {
        self.create_in(NAMESPACE, object).await
    }

    pub async fn create_in<K: Namespaced>(&self, namespace: &str, object: Value) -> K {
        let object: K = serde_json::from_value(object).unwrap();
        self.api_in::<K>(namespace).create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn get<K: Namespaced>(&self, name: &str) -> K {
        self.api::<K>().get(name).await.unwrap()
    }

    pub async fn patch<K: Namespaced>(&self, name: &str, patch: Value) -> K {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    pub async fn patch_status<K: Namespaced>(&self, name: &str, status: Value) -> K {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap()
    }

    pub async fn delete<K: Namespaced>(&self, name: &str, options: DeleteParams) {
        self.api::<K>().delete(name, &options).await.unwrap();
    }

    pub async fn list<K: Namespaced>(&self, selector: &str) -> Vec<K> {
        self.api::<K>().list(&ListParams::default().labels(selector)).await.unwrap().items
    }

    /// Pods of a label selector that are not on their way out.
    pub async fn pods(&self, selector: &str) -> Vec<Pod> {
        let mut pods = self.list::<Pod>(selector).await;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods
    }

    /// Waits until the object is as it should be.
    pub async fn until<K: Namespaced>(&self, name: &str, what: &str, is: impl Fn(&K) -> bool) -> K {
        let api = self.api::<K>();
        eventually(what, async || match api.get_opt(name).await.unwrap() {
            Some(object) if is(&object) => Ok(object),
            seen => Err(json!(seen).to_string()),
        })
        .await
    }

    /// Waits until the pods of a selector are as they should be.
    pub async fn until_pods(&self, selector: &str, what: &str, are: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
        eventually(what, async || {
            let pods = self.pods(selector).await;
            if are(&pods) { Ok(pods) } else { Err(describe(&pods)) }
        })
        .await
    }

    pub async fn until_gone<K: Namespaced>(&self, name: &str) {
        let api = self.api::<K>();
        eventually(&format!("{name} is gone"), async || match api.get_opt(name).await.unwrap() {
            None => Ok(()),
            Some(object) => Err(json!(object).to_string()),
        })
        .await;
    }

    /// A namespace in which pods can be made.
    pub async fn make_namespace(&self, name: &str) {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        self.until_account(name).await;
    }

    async fn until_account(&self, namespace: &str) {
        let accounts = self.api_in::<k8s_openapi::api::core::v1::ServiceAccount>(namespace);
        eventually("the service account", async || {
            accounts.get_opt("default").await.unwrap().ok_or_else(|| "none".to_owned())
        })
        .await;
    }
}

/// Looks until it is so; the error says what was seen instead.
pub async fn eventually<T>(what: &str, look: impl AsyncFn() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(start.elapsed() < TIMEOUT, "not so after {TIMEOUT:?}: {what}\n{seen}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads and writes again where somebody else wrote in between, as any client does.
pub async fn without_conflict<T>(write: impl AsyncFn() -> kube::Result<T>) -> T {
    eventually("nobody else writes in between", async || match write().await {
        Err(kube::Error::Api(status)) if status.code == 409 => Err(status.message),
        answer => Ok(answer.unwrap()),
    })
    .await
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
}

pub fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.containers[0].image.as_deref()).unwrap_or("")
}

pub fn name<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or("")
}

/// A template of pods with this label that run until they are deleted.
pub fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn describe(pods: &[Pod]) -> String {
    let line = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("?");
        format!("{} {phase} {} ready={}", name(pod), image(pod), is_ready(pod))
    };
    pods.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn all_features() -> ServerFeatures {
    ServerFeatures::new(&[], false).unwrap()
}

async fn serve(dir: &Path, features: &ServerFeatures) -> Server {
    let store = RedbStore::open(dir.join("store.redb"), Options::default()).unwrap();
    let names = ServingNames {
        host_name: "test".to_owned(),
        addresses: Vec::new(),
        extra_names: Vec::new(),
        cluster_domain: "cluster.local".to_owned(),
        service_address: None,
    };
    let pki = Arc::new(Pki::load_or_create(&dir.join("pki"), &names, Timestamp::now()).unwrap());
    let config = Config {
        bind: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        advertise: IpAddr::V4(Ipv4Addr::LOCALHOST),
        service_cidr: "10.96.0.0/12".parse().unwrap(),
        cluster_domain: "cluster.local".to_owned(),
        token_auth_file: None,
        allow_external_ips: false,
        kinds: minik8s_kinds::all(),
        has_peers: false,
        extension: features.extension(),
    };
    Server::start(config, store, pki).await.unwrap()
}

fn client(server: &Server, user: &str) -> Client {
    Client::new(server.local(User::authenticated(user, &["system:masters"])), NAMESPACE)
}

fn control(server: &Server, features: ServerFeatures) -> Control {
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let controllers = client(server, "system:kube-controller-manager");
    let caches = Caches::new(controllers.clone(), stop.clone());
    tasks.spawn(minik8s_controllers::run(
        controllers,
        minik8s_controllers::Config {
            stop: stop.clone(),
            caches: Some(caches.clone()),
            features: features.list,
            ..Default::default()
        },
    ));
    tasks.spawn(minik8s_scheduler::run(
        client(server, "system:kube-scheduler"),
        minik8s_scheduler::Config { stop: stop.clone(), caches: Some(caches), ..Default::default() },
    ));
    Control { stop, tasks }
}
