//! Pods of three nodes: two share a link, the third is behind a router.

use minik8s_meta::IpFamily;
use minik8s_network::pod_network::{Backend, Kernel, Links, Me, Owner, Peer, changes, plan, pod_mtu};
use minik8s_network::proxy::{Routes, ruleset};

use crate::lab::Lab;

const CLUSTER: &str = "10.244.0.0/16";
const PODS: [(&str, &str); 3] = [("pa", "10.244.0.2"), ("pb", "10.244.1.2"), ("pc", "10.244.2.2")];

struct Cluster {
    lab: Lab,
    peers: Vec<Peer>,
    runtime: tokio::runtime::Runtime,
}

impl Cluster {
    fn new() -> Cluster {
        let mut lab = Lab::new(&["lan", "a", "b", "c", "pa", "pb", "pc"]);
        // The switch of one link, and a router to the other.
        lab.ip("lan", "link add br0 type bridge\nlink set br0 up\naddr add 192.0.2.254/24 dev br0");
        lab.run(
            "lan",
            &[
                "sh",
                "-c",
                "echo 1 > /proc/sys/net/ipv4/ip_forward; \
                                      echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables",
            ],
        );
        for (node, address) in [("a", "192.0.2.1"), ("b", "192.0.2.2")] {
            lab.cable(("lan", node), (node, "eth0"));
            lab.ip("lan", &format!("link set dev {node} master br0"));
            lab.ip(node, &format!("addr add {address}/24 dev eth0\nroute add default via 192.0.2.254"));
        }
        lab.cable(("lan", "c"), ("c", "eth0"));
        lab.ip("lan", "addr add 198.51.100.254/24 dev c");
        lab.ip("c", "addr add 198.51.100.3/24 dev eth0\nroute add default via 198.51.100.254");
        let mut peers = Vec::new();
        for (index, (node, address)) in
            [("a", "192.0.2.1"), ("b", "192.0.2.2"), ("c", "198.51.100.3")].into_iter().enumerate()
        {
            let pods = vec![format!("10.244.{index}.0/24").parse().unwrap()];
            let addresses = vec![address.parse().unwrap()];
            peers.push(Peer { name: node.to_owned(), addresses, pods });
            let (pod, pod_address) = PODS[index];
            lab.pod(node, pod, &format!("10.244.{index}.1"), pod_address);
            let mtu = pod_mtu(1500, IpFamily::V4, Backend::Auto);
            lab.ip(pod, &format!("link set eth0 mtu {mtu}"));
            let rules = ruleset(&Routes::default(), "minik8s-test", CLUSTER.parse().unwrap());
            lab.nft(node, &rules.to_string());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Cluster { lab, peers, runtime }
    }

    fn kernel(&self, node: &str) -> Kernel {
        Kernel { namespace: Some(self.lab.namespace(node)) }
    }

    fn links(&self, node: &str) -> Links {
        self.runtime.block_on(self.kernel(node).links(&Owner::of("0badcafe"))).unwrap()
    }

    /// What the node's agent does; says whether there was anything to do.
    fn update(&self, node: &str, peers: &[Peer], backend: Backend) -> bool {
        let kernel = self.kernel(node);
        let owner = Owner::of("0badcafe");
        let address = peers.iter().find(|peer| peer.name == node).unwrap().addresses[0];
        self.runtime.block_on(async {
            let uplinks = vec![kernel.uplink(address).await.unwrap()];
            let cluster = CLUSTER.parse().unwrap();
            let tunnel = owner.tunnel.clone();
            let me = Me { name: node.to_owned(), uplinks, cluster, backend, tunnel };
            let changes = changes(&kernel.links(&owner).await.unwrap(), &plan(peers, &me).links, &owner);
            kernel.apply(&changes).await.unwrap();
            !changes.is_empty()
        })
    }

    fn update_all(&self, backend: Backend) {
        for node in ["a", "b", "c"] {
            self.update(node, &self.peers, backend);
            assert!(!self.update(node, &self.peers, backend), "{node}: a restarted agent has nothing to do");
        }
    }

    fn everybody_reaches_everybody(&self, backend: Backend) {
        for (from, own) in PODS {
            for (to, address) in PODS {
                let answer = self.lab.ask(from, address, 8080, 1);
                assert_eq!(answer, [format!("{to} {own}")], "{from} → {to} by {backend:?}");
            }
            let answers = self.lab.ask("a", PODS[2].1, 8080, 1);
            assert!(answers[0].starts_with("pc "), "a node reaches pods elsewhere: {answers:?}");
        }
    }
}

pub fn pods_reach_pods_of_all_nodes() {
    let cluster = Cluster::new();
    for backend in [Backend::Auto, Backend::Vxlan] {
        cluster.update_all(backend);
        cluster.everybody_reaches_everybody(backend);
        // The largest datagram that pods may send arrives in one piece; one byte more is refused at once.
        let largest = pod_mtu(1500, IpFamily::V4, backend) as usize - 28;
        assert_eq!(cluster.lab.send("pa", PODS[2].1, 8080, largest, 1), ["pc 10.244.0.2"], "{backend:?}");
        assert_eq!(cluster.lab.send("pa", PODS[2].1, 8080, largest + 1, 1), ["failed too long"]);
    }
    assert!(cluster.links("a").vxlan.is_some());
    cluster.update("a", &cluster.peers, Backend::HostGw);
    let links = cluster.links("a");
    assert_eq!((links.vxlan, links.routes.len()), (None, 1), "only the node on the same link has a route");
}

pub fn links_follow_the_nodes() {
    let mut cluster = Cluster::new();
    cluster.update_all(Backend::Auto);
    let before = cluster.links("a");
    assert_eq!((before.routes.len(), before.forwarding.len()), (2, 1));
    // A node gets another address.
    cluster.lab.ip("c", "addr del 198.51.100.3/24 dev eth0\naddr add 198.51.100.4/24 dev eth0");
    cluster.lab.ip("c", "route replace default via 198.51.100.254");
    cluster.peers[2].addresses = vec![[198, 51, 100, 4].into()];
    cluster.update_all(Backend::Auto);
    cluster.everybody_reaches_everybody(Backend::Auto);
    // Somebody takes a route and the tunnel away.
    cluster.lab.ip("a", "route del 10.244.1.0/24\nlink del mkx-0badcafe");
    assert!(cluster.update("a", &cluster.peers, Backend::Auto));
    cluster.everybody_reaches_everybody(Backend::Auto);
    // A node leaves.
    cluster.update("a", &cluster.peers[..2], Backend::Auto);
    let after = cluster.links("a");
    assert_eq!((after.routes.len(), after.vxlan), (1, None));
    // Routes of the administrator are never touched.
    cluster.lab.ip("a", "route add 10.244.9.0/24 via 192.0.2.2");
    cluster.runtime.block_on(cluster.kernel("a").clear(&Owner::of("0badcafe"))).unwrap();
    assert_eq!(cluster.links("a"), Links::default());
    assert!(cluster.lab.run("a", &["ip", "route"]).contains("10.244.9.0/24"));
}

pub fn only_what_leaves_the_cluster_is_masqueraded() {
    let mut cluster = Cluster::new();
    cluster.update_all(Backend::Auto);
    cluster.lab.serve("lan");
    assert_eq!(cluster.lab.ask("pa", "192.0.2.254", 8080, 1), ["lan 192.0.2.1"]);
    assert_eq!(cluster.lab.ask("pa", "10.244.1.2", 8080, 1), ["pb 10.244.0.2"]);
}
