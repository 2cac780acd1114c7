//! What cannot work says so, and what to do: as an event of the object concerned, or when the program starts.

use std::net::TcpListener;
use std::process::Command;

use super::place::socket;
use super::world::{World, pod};

const OBJECTS: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: greedy}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 6443, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: bold}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 9099, targetPort: 8080}]}}
- {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: late}, spec: {ingressClassName: minik8s, rules: [{host: shop.test, http: {paths: [{path: /one, pathType: Prefix, backend: {service: {name: two, port: {number: 80}}}}]}}]}}
"#;

/// Waits for an event with that reason about that object; gives its message.
#[track_caller]
fn event(world: &World, reason: &str, about: &str) -> String {
    let mut message = String::new();
    world.until(&format!("an event {reason} about {about}"), || {
        let events = world.lab.get(&["events", "-A", "--field-selector", &format!("reason={reason}")]);
        let mut about_it = events.iter().filter(|event| event["involvedObject"]["name"] == about);
        about_it.next().is_some_and(|event| {
            message = event["message"].as_str().unwrap_or_default().to_owned();
            true
        })
    });
    message
}

pub fn what_cannot_work_says_so(world: &mut World) {
    let node = world.node(1);
    let _program = node.inside(|| TcpListener::bind("0.0.0.0:9099").unwrap());
    world.apply(OBJECTS);
    let message = event(world, "PortReserved", "greedy");
    assert!(message.contains("port 6443/tcp of node") && message.contains("use another port"), "{message}");
    let inside = world.cluster_ip("greedy");
    let client = world.pod("client-1");
    world.settles("the Service inside the cluster", || client.ask(&inside, 6443), |a| a.starts_with("web-"));
    // The port of the nodes is still the API server's, also from the other node.
    let server = socket(&world.lab.address(1), 6443);
    assert!(
        client.get(&world.lab.address(1), 6443, "any", "/cgi-bin/who").map_or(true, |(code, _)| code != 200)
    );
    world.node(2).inside(|| std::net::TcpStream::connect(server)).unwrap();
    let message = event(world, "PortInUse", "bold");
    assert!(message.contains("a program of node node1 listens on port 9099/tcp"), "{message}");
    world.apply("{apiVersion: v1, kind: Service, metadata: {name: second}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 9099}]}}");
    let message = event(world, "PortTaken", "second");
    assert!(message.contains("leads to Service default/bold already"), "{message}");
    let message = event(world, "Conflict", "late");
    assert_eq!(message, "shop.test/one belongs to the older DNS default/shop");
    let message = event(world, "NoPods", "nobody");
    assert!(message.starts_with("no pod has the labels app=nobody: connections are refused"), "{message}");
    world.kubectl(&["delete", "service/greedy", "service/bold", "service/second", "ingress/late"]);
    a_range_in_use(world);
    a_node_in_the_range_of_pods(world);
    without_nft(world);
}

/// A pod or a Service wants a port of a node that a program has, or the node itself: the first get it, and the user is told;
/// the node keeps its own.
pub fn ports_of_nodes_that_are_taken(world: &mut World) {
    let (node, address) = (world.node(2), world.lab.address(2));
    let _programs = [9097, 30007].map(|port| node.inside(|| TcpListener::bind(("0.0.0.0", port)).unwrap()));
    let wants = |name: &str, port: u16| {
        let wanted = format!("containerPort: 8080, hostPort: {port}");
        pod(name, "wants", "nodeName: node2").replace("containerPort: 8080", &wanted)
    };
    let service = "{apiVersion: v1, kind: Service, metadata: {name: wants}, spec: {type: NodePort, selector: {app: web}, \
                   ports: [{port: 80, targetPort: 8080, nodePort: 30007}]}}";
    world.apply(&[&wants("wants-program", 9097), &wants("wants-node", 10250), service].join("\n---\n"));
    let client = world.pod("client-1");
    let message = event(world, "HostPortInUse", "wants-program");
    assert!(message.starts_with("a program of node node2 listens on port 9097/TCP, too"), "{message}");
    world.settles("the pod has the port", || client.ask(&address, 9097), |a| a.starts_with("wants-program "));
    let message = event(world, "HostPortReserved", "wants-node");
    assert!(message.starts_with("hostPort 10250/TCP is a port of node node2 itself"), "{message}");
    assert_eq!(world.json(&["get", "pod", "wants-node"])["status"]["phase"], "Pending");
    world.exec("client-2", &["true"]).expect("the node has its port");
    let message = event(world, "PortInUse", "wants");
    assert!(message.starts_with("a program of node node2 listens on port 30007/tcp, too"), "{message}");
    world.settles("the Service has the port", || client.ask(&address, 30007), |a| a.starts_with("web-"));
    world.kubectl(&["delete", "pod/wants-program", "pod/wants-node", "service/wants"]);
}

/// An agent does not run pods on a machine that would take them for neighbours.
fn a_node_in_the_range_of_pods(world: &World) {
    let range = world.json(&["get", "node", "node1"])["spec"]["podCIDR"].as_str().unwrap().to_owned();
    let taken = format!("{}/32", range.replace(".0/24", ".200"));
    let node = ["exec", "node2", "ip", "address"];
    world.lab.run(&[&node[..], &["add", &taken, "dev", "eth0"]].concat());
    world.lab.run(&["kill", "node2"]);
    let before = world.lab.log("node2").len();
    world.lab.run(&["start", "node2"]);
    world.settles(
        "the agent says why it ends",
        || world.lab.log("node2").split_off(before),
        |log| {
            log.contains(&format!("overlaps the network {taken} of this machine's interface eth0"))
                && log.contains("or start the cluster's servers with another --cluster-cidr")
        },
    );
    world.until("it has ended", || {
        world
            .lab
            .run(&["status"])
            .lines()
            .any(|line| line.starts_with("node2 ") && line.contains("minik8s=dead"))
    });
    world.lab.run(&[&node[..], &["delete", &taken, "dev", "eth0"]].concat());
    world.lab.run(&["start", "node2"]);
    world.both_ready();
}

/// A server does not start with addresses that the machine uses.
fn a_range_in_use(world: &World) {
    let network = format!("{}/24", world.lab.address(0));
    let data = world.lab.dir.join("refused");
    for (flag, other) in [("--cluster-cidr", "--service-cidr"), ("--service-cidr", "--cluster-cidr")] {
        let server = [env!("CARGO_BIN_EXE_minik8s"), "server", "--data-dir", data.to_str().unwrap()];
        let ranges = [flag, &network, other, "100.64.0.0/16", "--port", "7443"];
        let output = Command::new("nsenter")
            .arg(format!("--net={}", world.lab.namespace("node1").display()))
            .args(server)
            .args(ranges)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{text}");
        let said = text.contains(&format!("{flag} "))
            && text.contains("of this machine's interface eth0: choose another");
        assert!(said, "{text}");
    }
}

/// A node without the program says so, goes on with the rules that it has, and needs no new start when it gets it.
fn without_nft(world: &World) {
    let program = world.lab.run(&["exec", "node2", "sh", "-c", "command -v nft"]).trim().to_owned();
    world.lab.run(&["exec", "node2", "mount", "--bind", "/dev/null", &program]);
    world.restart("node2");
    let message = event(world, "ServicesFailed", "node2");
    assert!(message.contains("Services do not work on this node") && message.contains("nft"), "{message}");
    let (client, web) = (world.pod("client-2"), world.cluster_ip("web"));
    assert!(client.ask(&web, 80).starts_with("web-"));
    world.apply("{apiVersion: v1, kind: Service, metadata: {name: meanwhile}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}");
    world.lab.run(&["exec", "node2", "umount", &program]);
    let meanwhile = world.cluster_ip("meanwhile");
    world.settles("rules again", || client.ask(&meanwhile, 80), |answer| answer.starts_with("web-"));
    world.both_ready();
}
