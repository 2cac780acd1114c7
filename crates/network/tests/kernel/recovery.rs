//! Parts of the node's network that end are started again by whoever runs them, and go on from there.

use std::future::Future;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use minik8s_informer::ApiAccess;
use minik8s_network::pod_network::Backend;
use minik8s_network::{Config, Dns, Metrics, pod_ports};
use nix::sched::{CloneFlags, unshare};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// For a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// In a network that ends with the thread; commands that it starts are there, too.
fn in_a_network_of_its_own(work: impl Future<Output = ()> + Send + 'static) {
    let thread = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        ip("link set lo up");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, work).await }).expect("it takes too long");
    });
    thread.join().unwrap();
}

/// Pods start only behind guarded ports: a guard that has ended must not be the end of that.
pub fn guard_of_ports_that_is_started_again_serves_who_waits() {
    in_a_network_of_its_own(async {
        let (requests, mut ports) = mpsc::channel(4);
        let (policies, _nobody) = mpsc::channel(4);
        for round in 0..3 {
            let port = (format!("veth{round}"), format!("0a:00:00:00:00:0{round}"), Vec::new());
            let (done, guarded) = oneshot::channel();
            requests.send((None, port, done)).await.unwrap();
            // Dropped with the first answer, as one that panics is.
            tokio::select! {
                () = pod_ports::guard_ports(("c0ffee".to_owned(), false), &mut ports, policies.clone()) => panic!("it ended"),
                said = guarded => assert_eq!(said, Ok(Ok(())), "round {round}"),
            }
        }
    });
}

/// An address that comes late, as by DHCP, is listened on when it is there.
pub fn network_that_cannot_listen_for_names_ends_to_be_started_again() {
    in_a_network_of_its_own(async {
        let (stop, dir) = (CancellationToken::new(), tempfile::tempdir().unwrap());
        // Nobody answers there.
        let api = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = kube::Client::try_from(api).unwrap();
        let access = ApiAccess::of_node(client, "n1", stop.clone(), dir.path(), &[]);
        let (_starting, pods) = mpsc::channel(1);
        let config = Config {
            node_name: "n1".to_owned(),
            // On no machine, and not yet on this one.
            node_ips: vec!["192.0.2.77".parse().unwrap()],
            cluster_cidr: "10.244.0.0/16".parse().unwrap(),
            backend: Backend::HostGw,
            dns: Some(Dns {
                addresses: vec!["10.96.0.10".parse().unwrap()],
                domain: "cluster.local".to_owned(),
            }),
            own_ports: Default::default(),
            hosts: None,
            pod_addresses: Arc::new(Mutex::new(pods)),
            metrics: Arc::new(Metrics::new("cluster.local")),
            bridge: "mk0".to_owned(),
            instance: "c0ffee".to_owned(),
            mesh: watch::channel(Default::default()).1,
            stop: stop.clone(),
        };
        let (_pods, mut ending) = mpsc::channel(1);
        minik8s_network::run(access.clone(), config.clone(), &mut ending).await;
        assert!(!stop.is_cancelled());
        ip("addr add 192.0.2.77/32 dev lo");
        let again = minik8s_network::run(access, config, &mut ending);
        let lived = tokio::time::timeout(Duration::from_secs(10), again).await;
        assert!(lived.is_err(), "it ends although names are answered");
    });
}

fn ip(arguments: &str) {
    assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success(), "ip {arguments}");
}
