//! How long claims take until they are bound, in process: the API server, a store on the disk and the storage controllers,
//! without sockets, nodes and pods. Twice: with so many claims, and with four times as many, to see that each costs the same.
//!
//! Usage: `claims_bench [CLAIMS]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use minik8s_apiserver::{Config, Server};
use minik8s_auth::User;
use minik8s_auth::pki::{Pki, ServingNames};
use minik8s_feature::{Parts, ServerFeature};
use minik8s_runtime::{Caches, Object, Settings};
use minik8s_storage::Storage;
use minik8s_store::{Options, RedbStore};
use serde_json::{Value, json};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const IN_FLIGHT: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(300);
const CLASS: &str = "bench";
/// For each thousand claims.
const WANTED: f64 = 5.0;

#[derive(Clone, Copy)]
enum Case {
    VolumesFirst,
    ClaimsFirst,
    Local,
}

const CASES: [(&str, Case); 3] = [
    ("volumes by hand, then claims", Case::VolumesFirst),
    ("claims, then volumes by hand", Case::ClaimsFirst),
    ("class local", Case::Local),
];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let count = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    println!("| Claims bound, in process | {count} | {} | each, of the first | Target |", 4 * count);
    println!("|---|---|---|---|---|");
    for (name, case) in CASES {
        let few = measure(case, count).await?;
        let many = measure(case, 4 * count).await?;
        let ratio = many / few / 4.0;
        let wanted = WANTED * count as f64 / 1000.0;
        println!("| {name} | {few:.2} s | {many:.2} s | {ratio:.2} × | ≤ {wanted:.0} s, ≤ 1.5 × |");
    }
    Ok(())
}

async fn measure(case: Case, count: usize) -> anyhow::Result<f64> {
    let dir = tempfile::tempdir_in(".")?;
    let server = start(dir.path()).await?;
    let client = Client::new(server.local(User::authenticated("admin", &["system:masters"])), "default");
    let settings = Settings::default();
    let stop = settings.stop.clone();
    let caches = Caches::new(client.clone(), stop.clone());
    let mut parts = Parts::new(client.clone(), caches.clone(), settings);
    Storage.start(&mut parts);
    let running = tokio::spawn(parts.run());
    prepare(&client, case).await?;
    let (volumes, claims) =
        (Api::<PersistentVolume>::all(client.clone()), Api::default_namespaced(client.clone()));
    let by_hand = |i: usize| {
        json!({"metadata": {"name": format!("volume-{i}")}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "hostPath": {"path": "/x"}}})
    };
    let claim = |i: usize| {
        json!({"metadata": {"name": format!("claim-{i}")}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}}}})
    };
    if matches!(case, Case::VolumesFirst) {
        create(&volumes, count, by_hand).await?;
    }
    let begun = Instant::now();
    create::<PersistentVolumeClaim>(&claims, count, claim).await?;
    if matches!(case, Case::ClaimsFirst) {
        create(&volumes, count, by_hand).await?;
    }
    let all = caches.of::<PersistentVolumeClaim>();
    let is_bound = |claim: &PersistentVolumeClaim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
    };
    while all.list().iter().filter(|claim| is_bound(claim)).count() < count {
        if begun.elapsed() > TIMEOUT {
            bail!("not all of {count} claims are bound after {TIMEOUT:?}");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    stop.cancel();
    running.await?;
    server.stop().await;
    Ok(seconds)
}

/// The class, and where it makes volumes a node for them.
async fn prepare(client: &Client, case: Case) -> anyhow::Result<()> {
    let provisioner = match case {
        Case::Local => "local.minik8s.io",
        Case::VolumesFirst | Case::ClaimsFirst => "kubernetes.io/no-provisioner",
    };
    let class =
        json!({"metadata": {"name": CLASS}, "provisioner": provisioner, "volumeBindingMode": "Immediate"});
    let classes: Api<StorageClass> = Api::all(client.clone());
    classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"metadata": {"name": "node", "labels": {"kubernetes.io/hostname": "node"}}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes.patch_status("node", &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

async fn create<K: Object>(
    api: &Api<K>,
    count: usize,
    object: impl Fn(usize) -> Value,
) -> anyhow::Result<()> {
    let objects: Vec<K> = (0..count)
        .map(|i| serde_json::from_value(object(i)))
        .collect::<Result<_, _>>()
        .context("an object")?;
    let created =
        stream::iter(&objects).map(|object| async move { api.create(&PostParams::default(), object).await });
    created.buffer_unordered(IN_FLIGHT).try_for_each(|_| std::future::ready(Ok(()))).await?;
    Ok(())
}

async fn start(dir: &std::path::Path) -> anyhow::Result<Server> {
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
        extension: Storage.extension(),
    };
    Server::start(config, store, pki).await.context("the API server")
}
