//! Three control planes on one etcd, which are one cluster whatever happens to some of them.
//!
//! One test after another with the same servers: to start them is what takes time.

mod skew;
mod storm;
mod wire;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::join_all;
use http::Method;
use minik8s_join::{Joining, ServerAddress, join};
use nix::sys::signal::Signal;
use serde_json::json;
use skew::Skew;
use tempfile::TempDir;
use wire::Wire;

use crate::harness::consistency::MAPS;
use crate::harness::control_plane::{Connection, Credentials, Server};
use crate::harness::etcd_server::EtcdServer;

const JSON: &str = "application/json";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/minik8s-leader";
/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What is promised.
const HANDOVER: jiff::SignedDuration = jiff::SignedDuration::from_secs(5);
const SERVERS: usize = 3;

struct Planes {
    etcd: EtcdServer,
    servers: Vec<(TempDir, Server, Credentials)>,
    /// Of each server.
    stores: Vec<String>,
}

impl Planes {
    async fn start(count: usize) -> Planes {
        let etcd = EtcdServer::start().await;
        let stores = vec![format!("etcd={}", etcd.endpoint()); count];
        Planes::start_on(etcd, stores, None).await
    }

    /// Each behind a wire of its own, and one with a clock that is wrong.
    async fn behind_wires(count: usize, skew: Skew) -> (Planes, Vec<Wire>) {
        let etcd = EtcdServer::start().await;
        let target = etcd.endpoint().trim_start_matches("http://").parse().unwrap();
        let mut wires = Vec::new();
        for _ in 0..count {
            wires.push(Wire::to(target).await);
        }
        let stores = wires.iter().map(|wire| format!("etcd=http://{}", wire.address())).collect();
        (Planes::start_on(etcd, stores, Some(skew)).await, wires)
    }

    async fn start_on(etcd: EtcdServer, stores: Vec<String>, skew: Option<Skew>) -> Planes {
        let mut started = Vec::new();
        // All at once, on an empty etcd: each wants to make the cluster's keys and first objects.
        for (index, store) in stores.iter().enumerate() {
            let directory = tempfile::tempdir().unwrap();
            let mut server = Server::new(directory.path());
            if let Some(skew) = skew.filter(|skew| skew.server == index) {
                server.set_environment(skew.environment());
            }
            server.start_with(&["--store", store]);
            started.push((directory, server));
        }
        let mut servers = Vec::new();
        for (directory, mut server) in started {
            let credentials = server.ready().await;
            let token = directory.path().join("join-token");
            eventually("the server has a join token", async || token.exists()).await;
            servers.push((directory, server, credentials));
        }
        Planes { etcd, servers, stores }
    }

    async fn at(&self, index: usize) -> Connection {
        self.servers[index].2.connect().await.unwrap()
    }

    /// Starts one again that was ended.
    async fn restart(&mut self, index: usize) {
        self.start_again(index);
        let (_, server, credentials) = &mut self.servers[index];
        *credentials = server.ready().await;
    }

    /// The same, without waiting for it.
    fn start_again(&mut self, index: usize) {
        self.servers[index].1.start_with(&["--store", &self.stores[index]]);
    }

    fn file(&self, index: usize, name: &str) -> String {
        std::fs::read_to_string(self.servers[index].0.path().join(name)).unwrap()
    }

    /// Which server leads, as that one says which is asked.
    async fn leader(&self, asked: usize) -> Option<usize> {
        let (_, lease) = self.at(asked).await.get(LEASE).await.unwrap();
        let holder = lease["spec"]["holderIdentity"].as_str()?.to_owned();
        self.servers.iter().position(|(_, server, _)| holder.contains(&format!("_{}_", server.address())))
    }

    /// When the leader began to lead, by its own clock: that we hear of it may take longer.
    async fn acquired(&self, asked: usize) -> jiff::Timestamp {
        let (_, lease) = self.at(asked).await.get(LEASE).await.unwrap();
        lease["spec"]["acquireTime"].as_str().unwrap().parse().unwrap()
    }

    async fn until_leads(&self, asked: usize, wanted: impl Fn(usize) -> bool) -> (usize, Duration) {
        let begun = Instant::now();
        loop {
            if let Some(leader) = self.leader(asked).await.filter(|leader| wanted(*leader)) {
                return (leader, begun.elapsed());
            }
            assert!(begun.elapsed() < TIMEOUT, "nobody leads");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_are_one_cluster() {
    let mut planes = Planes::start(3).await;
    they_share_keys(&planes).await;
    what_one_writes_the_others_show(&planes).await;
    addresses_and_quotas_are_shared(&planes).await;
    a_node_finds_all_servers(&mut planes).await;
    a_killed_leader_is_replaced(&mut planes).await;
    a_leader_that_stops_hands_over(&mut planes).await;
    a_stopped_clock_does_not_make_two_leaders(&planes).await;
}

async fn they_share_keys(planes: &Planes) {
    for name in ["pki/ca.pem", "pki/service-account.pem", "join-token"] {
        let first = planes.file(0, name);
        assert!((1..3).all(|index| planes.file(index, name) == first), "{name}");
    }
    let path = "/api/v1/namespaces/default/serviceaccounts/default";
    eventually("the default account is there", async || planes.at(0).await.get(path).await.unwrap().0 == 200)
        .await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let (code, made) =
        planes.at(0).await.send(Method::POST, &format!("{path}/token"), JSON, &request).await.unwrap();
    assert_eq!(code, 201, "{made}");
    let token = made["status"]["token"].as_str().unwrap();
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    for index in 0..3 {
        // Each server's administrator is every server's.
        let mut foreign =
            planes.servers[index].2.at(planes.servers[(index + 1) % 3].1.address()).connect().await.unwrap();
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let (_, answer) = foreign.send(Method::POST, path, JSON, &review).await.unwrap();
        assert_eq!(answer["status"]["authenticated"], true, "{answer}");
    }
}

async fn what_one_writes_the_others_show(planes: &Planes) {
    let mut connections = [planes.at(0).await, planes.at(1).await, planes.at(2).await];
    let (_, list) = connections[1].get(MAPS).await.unwrap();
    let mut watcher = planes.at(1).await;
    let from = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = watcher.watch(&format!("{MAPS}?watch=1&resourceVersion={from}")).await.unwrap();
    for number in 0..30 {
        let name = format!("shared-{number}");
        let body = json!({"metadata": {"name": name}});
        let (writer, reader) = (number % 3, (number + 1) % 3);
        let (code, made) = connections[writer].send(Method::POST, MAPS, JSON, &body).await.unwrap();
        assert_eq!(code, 201, "{made}");
        // At once, at another server: alone, in a list, and as the start of a watch.
        let (code, found) = connections[reader].get(&format!("{MAPS}/{name}")).await.unwrap();
        assert_eq!((code, &found), (200, &made));
        let version = made["metadata"]["resourceVersion"].as_str().unwrap();
        let (code, list) =
            connections[reader].get(&format!("{MAPS}?resourceVersion={version}")).await.unwrap();
        assert!(code == 200 && list["items"].as_array().unwrap().contains(&made), "{list}");
        let event = loop {
            let event = watch.next().await.unwrap().unwrap();
            // The controllers' own objects are none of ours.
            if event["object"]["metadata"]["name"].as_str().unwrap().starts_with("shared-") {
                break event;
            }
        };
        assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &made));
    }
    // Of those who change the same version one wins, wherever they ask.
    let (_, found) = connections[0].get(&format!("{MAPS}/shared-0")).await.unwrap();
    let changes = connections.iter_mut().enumerate().map(|(index, connection)| {
        let mut new = found.clone();
        new["data"] = json!({"by": index.to_string()});
        async move { connection.send(Method::PUT, &format!("{MAPS}/shared-0"), JSON, &new).await.unwrap().0 }
    });
    let mut codes = join_all(changes).await;
    codes.sort_unstable();
    assert_eq!(codes, [200, 409, 409]);
}

async fn addresses_and_quotas_are_shared(planes: &Planes) {
    let services = "/api/v1/namespaces/default/services";
    let makers = (0..45).map(|number| async move {
        let body = json!({"metadata": {"name": format!("s{number}")}, "spec": {
            "type": "NodePort", "ports": [{"port": 80}],
        }});
        let (code, made) =
            planes.at(number % 3).await.send(Method::POST, services, JSON, &body).await.unwrap();
        assert_eq!(code, 201, "{made}");
        (made["spec"]["clusterIP"].to_string(), made["spec"]["ports"][0]["nodePort"].to_string())
    });
    let (addresses, ports): (BTreeSet<String>, BTreeSet<String>) = join_all(makers).await.into_iter().unzip();
    assert_eq!((addresses.len(), ports.len()), (45, 45));

    let mut first = planes.at(0).await;
    let body = json!({"metadata": {"name": "narrow"}});
    assert_eq!(first.send(Method::POST, "/api/v1/namespaces", JSON, &body).await.unwrap().0, 201);
    let quotas = "/api/v1/namespaces/narrow/resourcequotas";
    let body = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "7"}}});
    assert_eq!(first.send(Method::POST, quotas, JSON, &body).await.unwrap().0, 201);
    eventually("the quota is counted", async || {
        let (_, quota) = planes.at(0).await.get(&format!("{quotas}/q")).await.unwrap();
        quota["status"]["used"]["count/secrets"] == "0"
    })
    .await;
    let makers = (0..30).map(|number| async move {
        let body = json!({"metadata": {"name": format!("s{number}")}});
        let path = "/api/v1/namespaces/narrow/secrets";
        planes.at(number % 3).await.send(Method::POST, path, JSON, &body).await.unwrap().0
    });
    let codes = join_all(makers).await;
    assert!(codes.iter().all(|code| matches!(code, 201 | 403)), "{codes:?}");
    // The controller's count may for a moment miss what was charged just now; then one more gets in. Servers that did
    // not see each other's charges would let three times as many in.
    let made = codes.iter().filter(|code| **code == 201).count();
    assert!((7..=9).contains(&made), "{codes:?}");
    eventually("the quota counts what is there", async || {
        let (_, quota) = planes.at(0).await.get(&format!("{quotas}/q")).await.unwrap();
        quota["status"]["used"]["count/secrets"] == made.to_string().as_str()
    })
    .await;
}

/// It is told of one, learns of the others, remembers them, and uses another when that one dies.
async fn a_node_finds_all_servers(planes: &mut Planes) {
    let directory = tempfile::tempdir().unwrap();
    let told: ServerAddress = format!("https://{}", planes.servers[2].1.address()).parse().unwrap();
    let member = join(Joining {
        directory: directory.path().to_owned(),
        node_name: "n1".to_owned(),
        addresses: vec!["192.0.2.7".parse().unwrap()],
        servers: vec![told],
        token: Some(planes.file(0, "join-token").parse().unwrap()),
    });
    let member = member.await.unwrap();
    let settings = "/api/v1/namespaces/kube-system/configmaps/minik8s-cluster";
    let all: BTreeSet<String> =
        planes.servers.iter().map(|(_, server, _)| format!("https://{}", server.address())).collect();
    let mut listed = Vec::new();
    eventually("all three servers are listed", async || {
        let (_, map) = planes.at(1).await.get(settings).await.unwrap();
        let servers = map["data"]["servers"].as_str().unwrap_or_default();
        listed = servers.split(',').map(str::to_owned).collect();
        listed.iter().cloned().collect::<BTreeSet<_>>() == all
    })
    .await;
    let learned: Vec<ServerAddress> = listed.iter().map(|url| url.parse().unwrap()).collect();
    member.learn_servers(&learned).unwrap();
    eventually("the administrator's kubeconfig has a context for each server", async || {
        (0..3).all(|index| planes.file(index, "admin.kubeconfig").matches("  context:").count() == 3)
    })
    .await;
    member.client().apiserver_version().await.unwrap();
    planes.servers[2].1.crash();
    let begun = Instant::now();
    while member.client().apiserver_version().await.is_err() {
        assert!(begun.elapsed() < TIMEOUT, "the node finds no other server");
    }
    println!("a node uses another server after {:?}", begun.elapsed());
    // Also after a restart, without being told anything, while the one it was told of is away.
    let again = Joining {
        directory: directory.path().to_owned(),
        node_name: "n1".to_owned(),
        addresses: Vec::new(),
        servers: Vec::new(),
        token: None,
    };
    join(again).await.unwrap().client().apiserver_version().await.unwrap();
    eventually("the dead server is listed no more", async || {
        let (_, map) = planes.at(1).await.get(settings).await.unwrap();
        map["data"]["servers"].as_str().unwrap_or_default().split(',').count() == 2
    })
    .await;
    planes.restart(2).await;
}

async fn a_killed_leader_is_replaced(planes: &mut Planes) {
    let (leader, _) = planes.until_leads(0, |_| true).await;
    let asked = (leader + 1) % 3;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let body = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    let (code, made) = planes.at(asked).await.send(Method::POST, deployments, JSON, &body).await.unwrap();
    assert_eq!(code, 201, "{made}");
    let pods = async || {
        let path = "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb";
        let (_, list) = planes.at(asked).await.get(path).await.unwrap();
        list["items"].as_array().unwrap().len()
    };
    eventually("two pods", async || pods().await == 2).await;
    planes.servers[leader].1.crash();
    let (killed, moment) = (Instant::now(), jiff::Timestamp::now());
    let (next, _) = planes.until_leads(asked, |now| now != leader).await;
    let took = planes.acquired(asked).await.duration_since(moment);
    println!("a killed leader was replaced after {took:?}");
    assert!(took < HANDOVER, "{took:?}");
    let scale = json!({"spec": {"replicas": 5}});
    let path = format!("{deployments}/web");
    let merge = "application/merge-patch+json";
    assert_eq!(planes.at(next).await.send(Method::PATCH, &path, merge, &scale).await.unwrap().0, 200);
    let pods = async || {
        let path = "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb";
        let (_, list) = planes.at(asked).await.get(path).await.unwrap();
        list["items"].as_array().unwrap().len()
    };
    eventually("the new leader's controllers work", async || pods().await == 5).await;
    println!("its controllers' first work was done {:?} after the kill", killed.elapsed());
    planes.restart(leader).await;
}

async fn a_leader_that_stops_hands_over(planes: &mut Planes) {
    let (leader, _) = planes.until_leads(0, |_| true).await;
    let asked = (leader + 1) % 3;
    let moment = jiff::Timestamp::now();
    let mut server = std::mem::replace(&mut planes.servers[leader].1, Server::new(std::path::Path::new("/")));
    let stopping = tokio::task::spawn_blocking(move || {
        server.stop();
        server
    });
    planes.until_leads(asked, |now| now != leader).await;
    let took = planes.acquired(asked).await.duration_since(moment);
    println!("a leader that stops was replaced after {took:?}");
    // Sooner than its lease would have run out.
    assert!(took < jiff::SignedDuration::from_secs(4), "{took:?}");
    planes.servers[leader].1 = stopping.await.unwrap();
    planes.restart(leader).await;
}

/// A process that was stopped for longer than its lease must not go on where it was.
async fn a_stopped_clock_does_not_make_two_leaders(planes: &Planes) {
    let (leader, _) = planes.until_leads(0, |_| true).await;
    let asked = (leader + 1) % 3;
    planes.servers[leader].1.signal(Signal::SIGSTOP);
    let (next, _) = planes.until_leads(asked, |now| now != leader).await;
    planes.servers[leader].1.signal(Signal::SIGCONT);
    // It serves again, and leaves leading to the other.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        assert_eq!(planes.leader(leader).await, Some(next));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < TIMEOUT, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
