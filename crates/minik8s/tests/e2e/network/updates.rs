//! Pods replaced one by one under load: nobody notices.

use super::load::Load;
use super::place::{Place, socket};
use super::world::{World, container};

const REPLICAS: u32 = 4;

fn deployment() -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: roll}}
spec:
  replicas: {REPLICAS}
  selector: {{matchLabels: {{app: roll}}}}
  template:
    metadata: {{labels: {{app: roll}}}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      {}
---
apiVersion: v1
kind: Service
metadata: {{name: roll}}
spec: {{type: NodePort, selector: {{app: roll}}, ports: [{{port: 80, targetPort: 8080}}]}}
",
        container("").replace("\n    ", "\n        ")
    )
}

/// Through the Service's address from pods and a node, through a node's port from outside, through the router.
fn targets(world: &World) -> Vec<(Place, std::net::SocketAddr)> {
    let service = socket(&world.cluster_ip("roll"), 80);
    let port = socket(&world.lab.address(1), world.node_port("roll"));
    let clients = [world.pod("client-1"), world.pod("client-2"), world.node(2)].map(|place| (place, service));
    clients.into_iter().chain([(world.outside(), port)]).collect()
}

pub fn rolling_update(world: &mut World) {
    let (requests, failed) = under_load(world, 1);
    eprintln!("a rolling update and a scale-down: {} of {requests} requests failed", failed.len());
    assert!(failed.is_empty(), "{} of {requests}: {failed:#?}", failed.len());
}

/// Rolling updates until that many requests were answered, and a scale-down: how many there were, and which failed.
pub fn under_load(world: &World, least: u64) -> (u64, Vec<String>) {
    world.apply(&deployment());
    let rolled = ["rollout", "status", "deployment/roll", "--timeout=180s"];
    let status = |world: &World| {
        let output = world.lab.kubectl_without_limit(&rolled);
        assert!(output.status.success(), "{output:?}");
    };
    status(world);
    let outside = world.outside();
    let (node, port) = (world.lab.address(1), world.node_port("roll"));
    world.settles("the node's port", || outside.ask(&node, port), |answer| answer.starts_with("roll-"));
    let load = Load::start(&targets(world));
    world.until("requests are answered", || load.count() > 100);
    for round in 2.. {
        world.kubectl(&["set", "env", "deployment/roll", &format!("ROUND={round}")]);
        status(world);
        if load.count() >= least {
            break;
        }
    }
    world.kubectl(&["scale", "deployment/roll", "--replicas=1"]);
    world.until("three pods are gone", || world.lab.get(&["pods", "-l", "app=roll"]).len() == 1);
    load.end()
}
