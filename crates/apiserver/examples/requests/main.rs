//! What one request of each kind costs the server: CPU time per request, without sockets and clients.
//!
//! Profile it (`perf record -g`) before touching the request path.

mod webhook;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use minik8s_apiserver::{Config, LocalService, Server};
use minik8s_auth::User;
use minik8s_auth::pki::{Pki, ServingNames};
use minik8s_store::{Options, RedbStore};
use serde_json::json;
use tower::ServiceExt;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Error = Box<dyn std::error::Error + Send + Sync>;

const PODS: &str = "/api/v1/namespaces/default/pods";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What `kubectl get` asks for.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const IN_FLIGHT: usize = 64;
/// Of so many lists the quickest counts.
const LISTS: usize = 5;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(4000);
    let dir = tempfile::tempdir_in(".")?;
    let server = start(dir.path()).await?;
    let admin = server.local(User::authenticated("admin", &["system:masters"]));
    let account = json!({"metadata": {"name": "default"}}).to_string();
    send(&admin, Method::POST, "/api/v1/namespaces/default/serviceaccounts", account).await?;
    let pod = |i: usize| (Method::POST, PODS.to_owned(), pod(i));
    let bind = |i: usize| {
        let body = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": format!("pod-{i}")},
            "target": {"apiVersion": "v1", "kind": "Node", "name": format!("node-{}", i % 100)},
        });
        (Method::POST, format!("{PODS}/pod-{i}/binding"), body.to_string())
    };
    let status = |i: usize| (Method::PATCH, format!("{PODS}/pod-{i}/status"), running());
    let get = |i: usize| (Method::GET, format!("{PODS}/pod-{i}"), String::new());
    let event = |i: usize| (Method::POST, EVENTS.to_owned(), event(i));
    let config_map = |i: usize| {
        let body = json!({"metadata": {"name": format!("map-{i}")}, "data": {"x": "x".repeat(1000)}});
        (Method::POST, CONFIG_MAPS.to_owned(), body.to_string())
    };
    measure(&admin, "create a pod", count, pod).await?;
    measure(&admin, "bind it", count, bind).await?;
    measure(&admin, "patch its status", count, status).await?;
    measure(&admin, "get it", count, get).await?;
    let protobuf = minik8s_protobuf::MEDIA_TYPE;
    for (form, accept) in [("whole", "application/json"), ("in protobuf", protobuf), ("as a table", TABLE)] {
        for encoding in ["", "gzip"] {
            list(&admin, &format!("list {count} pods, {form}"), accept, encoding).await?;
        }
    }
    measure(&admin, "create an event", count, event).await?;
    measure(&admin, "create a ConfigMap of 1 kB", count, config_map).await?;
    webhook::measure(&admin).await?;
    server.stop().await;
    Ok(())
}

async fn start(dir: &std::path::Path) -> Result<Server, Error> {
    let store = RedbStore::open(dir.join("store.redb"), Options::default())?;
    let names = ServingNames {
        host_name: "bench".to_owned(),
        addresses: Vec::new(),
        extra_names: Vec::new(),
        cluster_domain: "cluster.local".to_owned(),
        service_address: None,
    };
    let pki = Arc::new(Pki::load_or_create(&dir.join("pki"), &names, Timestamp::now())?);
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let config = Config {
        bind: SocketAddr::new(loopback, 0),
        advertise: loopback,
        service_cidr: "10.96.0.0/12".parse()?,
        cluster_domain: "cluster.local".to_owned(),
        token_auth_file: None,
        allow_external_ips: false,
        kinds: minik8s_kinds::all(),
        has_peers: false,
        extension: Default::default(),
    };
    Ok(Server::start(config, store, pki).await?)
}

/// Sends them all, a fixed number at a time.
async fn measure(
    client: &LocalService,
    what: &str,
    count: usize,
    request: impl Fn(usize) -> (Method, String, String),
) -> Result<(), Error> {
    let requests: Vec<_> = (0..count).map(request).collect();
    let (cpu, begun) = (cpu_time()?, Instant::now());
    let mut tasks = tokio::task::JoinSet::new();
    for (method, path, body) in requests {
        if tasks.len() >= IN_FLIGHT
            && let Some(done) = tasks.join_next().await
        {
            done??;
        }
        let client = client.clone();
        tasks.spawn(async move { send(&client, method, &path, body).await });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    println!(
        "{what:<28} {:>5.0} µs of CPU, {:>5.0} µs of time",
        each(cpu_time()? - cpu),
        each(begun.elapsed())
    );
    Ok(())
}

/// All pods at once, as clients with that `Accept` and `Accept-Encoding` get them.
async fn list(client: &LocalService, what: &str, accept: &str, encoding: &str) -> Result<(), Error> {
    let (mut best, mut size) = (Duration::MAX, 0);
    for _ in 0..LISTS {
        let request = Request::get(PODS).header("accept", accept).header("accept-encoding", encoding);
        let begun = Instant::now();
        let answer = client.clone().oneshot(request.body(Full::default())?).await?;
        let status = answer.status();
        size = answer.into_body().collect().await?.to_bytes().len();
        best = best.min(begun.elapsed());
        if !status.is_success() {
            return Err(format!("{what}: {status}").into());
        }
    }
    let (time, megabytes) = (best.as_secs_f64() * 1e3, size as f64 / 1e6);
    println!("{what:<28} {time:>5.0} ms, {megabytes:.1} MB {encoding}");
    Ok(())
}

async fn send(client: &LocalService, method: Method, path: &str, body: String) -> Result<(), Error> {
    let kind = match method {
        Method::PATCH => "application/strategic-merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let answer = client.clone().oneshot(request.body(Full::new(Bytes::from(body)))?).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    if status.is_success() { Ok(()) } else { Err(format!("{path}: {status}: {body:?}").into()) }
}

/// What all threads of this process have used.
fn cpu_time() -> Result<Duration, Error> {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanoseconds += text.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// A pod of ordinary size.
fn pod(i: usize) -> String {
    let env: Vec<_> =
        (0..5).map(|e| json!({"name": format!("VARIABLE_{e}"), "value": "some ordinary value"})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{i}"), "labels": {"app": "bench", "number": i.to_string()}},
        "spec": {"containers": [{
            "name": "main", "image": "example/image:1", "env": env, "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        }]},
    })
    .to_string()
}

/// What an agent says of a pod that runs.
fn running() -> String {
    let now = "2026-01-01T00:00:00Z";
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let conditions = ["Initialized", "Ready", "ContainersReady"].map(condition);
    json!({"status": {
        "phase": "Running", "startTime": now, "hostIP": "127.0.0.1", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
        "conditions": conditions,
        "containerStatuses": [{
            "name": "main", "image": "example/image:1", "imageID": "", "ready": true, "started": true,
            "restartCount": 0, "containerID": "containerd://0123456789", "state": {"running": {"startedAt": now}},
        }],
    }})
    .to_string()
}

fn event(i: usize) -> String {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("pod-{i}.1"), "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": format!("pod-{i}"), "namespace": "default"},
        "reason": "Scheduled", "message": format!("Successfully assigned default/pod-{i} to node-1"),
        "type": "Normal", "count": 1, "source": {"component": "default-scheduler"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
    })
    .to_string()
}
