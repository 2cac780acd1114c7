//! A whole API server with its store on disk, and the engine, in this process; tasks do nothing.

#![allow(dead_code, reason = "tests and the benchmark each use a part of it")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use minik8s_api::Extension;
use minik8s_apiserver::{Config, Server};
use minik8s_auth::User;
use minik8s_auth::pki::{Pki, ServingNames};
use minik8s_runtime::{Cache, Caches, Key};
use minik8s_store::{Options, RedbStore, Store};
use minik8s_workflows::engine::{Engine, Means};
use minik8s_workflows::kinds::{self, Workflow, WorkflowRun};
use minik8s_workflows::tasks::{Job, Submitted, TaskError, Tasks};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Tasks that do nothing, at once; or, while held, never.
#[derive(Default)]
pub struct Nothing {
    pub held: AtomicBool,
    pub started: AtomicUsize,
}

#[async_trait]
impl Tasks for Nothing {
    async fn run(&self, job: &Job, _submitted: Submitted<'_>) -> Result<Value, TaskError> {
        self.started.fetch_add(1, Ordering::Relaxed);
        if self.held.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        Ok(job.request.parameters.clone())
    }
}

pub struct World {
    server: Server,
    pub store: Arc<dyn Store>,
    pub client: Client,
    pub cache: Arc<Cache<WorkflowRun>>,
    pub tasks: Arc<Nothing>,
    stop: CancellationToken,
    engine: tokio::task::JoinHandle<()>,
}

impl World {
    pub async fn start(dir: &Path, held: bool) -> Self {
        let (server, store) = serve(dir).await;
        let user = User::authenticated("system:kube-controller-manager", &["system:masters"]);
        let client = Client::new(server.local(user), "default");
        let stop = CancellationToken::new();
        let caches = Caches::new(client.clone(), stop.clone());
        let tasks = Arc::new(Nothing { held: AtomicBool::new(held), ..Nothing::default() });
        let engine = Engine {
            client: client.clone(),
            caches: caches.clone(),
            records: server.records(),
            means: Means { tasks: tasks.clone(), clock: Arc::new(|| Timestamp::now().as_millisecond()) },
            leads: tokio::sync::watch::channel(true).1,
            stop: stop.clone(),
        };
        let cache = caches.of::<WorkflowRun>();
        let engine = tokio::spawn(engine.run());
        World { server, store, client, cache, tasks, stop, engine }
    }

    pub async fn end(self) {
        let World { server, store, client, cache, tasks, stop, engine } = self;
        stop.cancel();
        engine.await.unwrap();
        server.stop().await;
        drop((client, cache, tasks, store));
    }

    pub fn runs(&self) -> Api<WorkflowRun> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub async fn create(&self, name: &str, workflow: &str) {
        let run = json!({"apiVersion": "minik8s.io/v1", "kind": "WorkflowRun", "metadata": {"name": name},
            "spec": {"workflow": workflow, "input": {"order": 4711}}});
        self.runs().create(&PostParams::default(), &serde_json::from_value(run).unwrap()).await.unwrap();
    }

    pub fn is_over(&self, name: &str) -> bool {
        self.cache.get(&Key::new("default", name)).is_some_and(|run| run.is_over())
    }

    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        while !condition(self) {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// What a server that died has left, for the next one: the file may still be open here.
pub fn left(dir: &Path) -> TempDir {
    let copy = TempDir::new().unwrap();
    std::fs::copy(dir.join("store.redb"), copy.path().join("store.redb")).unwrap();
    copy
}

/// A chain of so many tasks.
pub fn workflow(name: &str, steps: usize) -> Workflow {
    let mut states = serde_json::Map::new();
    for step in 1..=steps {
        let mut state = json!({"Type": "Task", "Resource": "function:nothing"});
        match step == steps {
            true => state["End"] = true.into(),
            false => state["Next"] = format!("step{}", step + 1).into(),
        }
        states.insert(format!("step{step}"), state);
    }
    let definition = json!({"StartAt": "step1", "States": states});
    let object = json!({"apiVersion": "minik8s.io/v1", "kind": "Workflow", "metadata": {"name": name}, "spec": {"definition": definition}});
    serde_json::from_value(object).unwrap()
}

async fn serve(dir: &Path) -> (Server, Arc<dyn Store>) {
    let store: Arc<dyn Store> = RedbStore::open(dir.join("store.redb"), Options::default()).unwrap();
    let names = ServingNames {
        host_name: "bench".to_owned(),
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
        extension: Extension {
            kinds: vec![kinds::workflow(), kinds::workflow_run()],
            ..Extension::default()
        },
    };
    (Server::start(config, store.clone(), pki).await.unwrap(), store)
}
