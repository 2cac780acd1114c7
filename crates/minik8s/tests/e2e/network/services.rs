//! Services of every kind, from everywhere.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::place::{Place, socket};
use super::world::{UDP, World, container, pod};

const SERVICES: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}, {name: datagrams, port: 81, targetPort: 8081, protocol: UDP}]}}
- {apiVersion: v1, kind: Service, metadata: {name: own}, spec: {selector: {name: web-1}, ports: [{port: 80, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: near}, spec: {internalTrafficPolicy: Local, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: far}, spec: {internalTrafficPolicy: Local, selector: {name: web-2}, ports: [{port: 80, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: source}, spec: {type: NodePort, externalTrafficPolicy: Local, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: balanced}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 8088, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: external}, spec: {externalIPs: [203.0.113.7], selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: sticky}, spec: {type: NodePort, sessionAffinity: ClientIP, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: turns, annotations: {minik8s.io/balance: round-robin}}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: nobody}, spec: {type: NodePort, selector: {app: nobody}, ports: [{name: tcp, port: 80}, {name: udp, port: 80, protocol: UDP}]}}
"#;

pub fn make(world: &mut World) {
    world.apply(SERVICES);
    for client in places(world) {
        let address = world.cluster_ip("nobody");
        // The last one of the list: the others are there.
        world.settles("the rules are there", || client.ask(&address, 80), |answer| answer == "refused");
    }
}

fn places(world: &World) -> [Place; 4] {
    [world.node(1), world.node(2), world.pod("client-1"), world.pod("client-2")]
}

fn names(answers: &[String]) -> BTreeSet<&str> {
    answers.iter().map(|answer| answer.split(' ').next().unwrap()).collect()
}

fn both() -> BTreeSet<&'static str> {
    ["web-1", "web-2"].into()
}

/// Nodes, pods on both nodes, the endpoints themselves, and the world outside through node ports.
pub fn everybody_reaches_a_service(world: &mut World) {
    let (web, own) = (world.cluster_ip("web"), world.cluster_ip("own"));
    let pods = [world.pod("web-1"), world.pod("web-2")];
    let _servers = pods.each_ref().map(|pod| pod.serve_udp(UDP));
    for from in places(world).iter().chain(&pods) {
        let answers = from.ask_often(&web, 80, 24);
        assert_eq!(names(&answers), both(), "{}: {answers:?}", from.name);
        let answers: Vec<String> = (0..16).map(|_| from.send(&web, 81, 9)).collect();
        assert_eq!(names(&answers), both(), "{}: {answers:?}", from.name);
    }
    // A pod to itself.
    assert!(pods[0].ask(&own, 80).starts_with("web-1 "));
    // Pods of the same and of another node are seen with their own addresses.
    for name in ["client-1", "client-2"] {
        let client = world.pod(name);
        assert_eq!(client.ask(&own, 80), format!("web-1 {}", client.address));
    }
    let ports = world.json(&["get", "service", "web"])["spec"]["ports"].clone();
    let port = |index: usize| u16::try_from(ports[index]["nodePort"].as_u64().unwrap()).unwrap();
    for node in [1, 2] {
        let address = world.lab.address(node);
        for from in [world.outside(), world.pod("client-1"), world.node(1)] {
            let answers = from.ask_often(&address, port(0), 24);
            assert_eq!(names(&answers), both(), "{} → node{node}: {answers:?}", from.name);
            assert!(from.send(&address, port(1), 9).starts_with("web-"), "{} → node{node}", from.name);
        }
        // As people try first.
        let answers = world.node(node).ask_often("127.0.0.1", port(0), 24);
        assert_eq!(names(&answers), both(), "node{node} → localhost: {answers:?}");
        assert!(world.node(node).send("127.0.0.1", port(1), 9).starts_with("web-"), "node{node} → localhost");
    }
}

pub fn nobody_there_is_refused_at_once(world: &mut World) {
    let (address, port) = (world.cluster_ip("nobody"), world.node_port("nobody"));
    for (from, to, port) in [
        (world.pod("client-1"), address.clone(), 80),
        (world.node(2), address.clone(), 80),
        (world.outside(), world.lab.address(1), port),
    ] {
        let begun = Instant::now();
        assert_eq!(from.ask(&to, port), "refused", "{}", from.name);
        assert!(begun.elapsed() < Duration::from_secs(5), "{} waited {:?}", from.name, begun.elapsed());
    }
    assert_eq!(world.pod("client-2").send(&address, 80, 1), "refused");
}

pub fn policies_keep_traffic_on_the_node(world: &mut World) {
    let (near, far) = (world.cluster_ip("near"), world.cluster_ip("far"));
    for (client, here) in [("client-1", "web-1"), ("client-2", "web-2")] {
        let answers = world.pod(client).ask_often(&near, 80, 8);
        assert_eq!(names(&answers), [here].into(), "{answers:?}");
    }
    assert_eq!(world.pod("client-1").ask(&far, 80), "refused");
    assert!(world.pod("client-2").ask(&far, 80).starts_with("web-2 "));
    // From outside: the node's own endpoint, which sees who asks; otherwise it sees the node.
    let outside = world.outside();
    let (local, any) = (world.node_port("source"), world.node_port("web"));
    for node in [1, 2] {
        let answers = outside.ask_often(&world.lab.address(node), local, 4);
        let expected = format!("web-{node} {}", outside.address);
        assert!(answers.iter().all(|answer| *answer == expected), "{answers:?}");
        let answers = outside.ask_often(&world.lab.address(node), any, 8);
        assert!(!answers.iter().any(|answer| answer.ends_with(&outside.address.to_string())), "{answers:?}");
    }
}

pub fn balancers_and_external_addresses(world: &mut World) {
    let nodes = [1, 2].map(|node| world.lab.address(node));
    world.until("the balancer has the nodes' addresses", || {
        let status = world.json(&["get", "service", "balanced"])["status"]["loadBalancer"]["ingress"].clone();
        let ips: Vec<_> =
            status.as_array().into_iter().flatten().filter_map(|one| one["ip"].as_str()).collect();
        ips == nodes
    });
    let outside = world.outside();
    outside.inside(|| {
        let route = ["route", "replace", "203.0.113.7", "via", &nodes[0]];
        assert!(std::process::Command::new("ip").args(route).status().unwrap().success());
    });
    for from in [&outside, &world.pod("client-2"), &world.node(2)] {
        for (address, port) in [(nodes[0].as_str(), 8088), (&nodes[1], 8088), ("203.0.113.7", 80)] {
            let answer = || from.ask(address, port);
            world.settles(&format!("{} → {address}:{port}", from.name), answer, |answer| {
                answer.starts_with("web-")
            });
        }
    }
}

pub fn clients_stay_or_take_turns(world: &mut World) {
    let (sticky, turns) = (world.cluster_ip("sticky"), world.cluster_ip("turns"));
    let client = world.pod("client-1");
    let answers = client.ask_often(&turns, 80, 8);
    let takes_turns = answers.windows(2).all(|pair| names(&pair[..1]) != names(&pair[1..]));
    assert!(takes_turns, "{answers:?}");
    let (node, port) = (world.lab.address(1), world.node_port("sticky"));
    for (from, address, port) in
        [(&client, &sticky, 80), (&world.pod("client-2"), &sticky, 80), (&world.outside(), &node, port)]
    {
        let answers = from.ask_often(address, port, 12);
        assert!(names(&answers).len() == 1 && answers[0].starts_with("web-"), "{}: {answers:?}", from.name);
    }
    // Without affinity everybody answers, and with it again one does.
    let set = |to: &str| {
        let patch = format!(r#"{{"spec":{{"sessionAffinity":"{to}"}}}}"#);
        world.kubectl(&["patch", "service", "sticky", "-p", &patch]);
    };
    set("None");
    world.until("both answer", || names(&client.ask_often(&sticky, 80, 16)) == both());
    world.until("both answer at the node's port", || {
        names(&world.outside().ask_often(&node, port, 16)) == both()
    });
    set("ClientIP");
    world.until("one answers", || names(&client.ask_often(&sticky, 80, 16)).len() == 1);
}

/// Pods that are not ready, that become so, and that are on their way out.
pub fn endpoints_come_and_go(world: &mut World) {
    let never = container(
        "    startupProbe: {exec: {command: [test, -e, /tmp/go]}, periodSeconds: 1, failureThreshold: 900}\n",
    );
    world.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: slow, labels: {{app: slow}}}}\nspec:\n  nodeName: node2\n  \
         terminationGracePeriodSeconds: 0\n  containers:\n  {never}\
         ---\napiVersion: v1\nkind: Service\nmetadata: {{name: ready}}\nspec: {{selector: {{app: slow}}, ports: [{{port: 80, targetPort: 8080}}]}}\n\
         ---\napiVersion: v1\nkind: Service\nmetadata: {{name: early}}\nspec: {{publishNotReadyAddresses: true, selector: {{app: slow}}, ports: [{{port: 80, targetPort: 8080}}]}}\n"
    ));
    let (ready, early) = (world.cluster_ip("ready"), world.cluster_ip("early"));
    let client = world.pod("client-1");
    world.settles(
        "a pod that is not ready but published",
        || client.ask(&early, 80),
        |a| a.starts_with("slow "),
    );
    assert_eq!(client.ask(&ready, 80), "refused");
    world.exec("slow", &["touch", "/tmp/go"]).unwrap();
    world.kubectl(&["wait", "pod", "slow", "--for=condition=Ready", "--timeout=180s"]);
    for from in places(world) {
        let took = world.settles("it became ready", || from.ask(&ready, 80), |a| a.starts_with("slow "));
        assert!(took < Duration::from_secs(15), "{} saw it after {took:?}", from.name);
    }
    world.kubectl(&["delete", "pod", "slow", "--wait=false"]);
    world.settles("it is gone", || client.ask(&ready, 80), |answer| answer == "refused");
    terminating(world, &client);
}

/// A pod that is told to end but goes on serves as long as there is no other.
fn terminating(world: &World, client: &Place) {
    let deaf = |name: &str| {
        let text =
            pod(name, "stay", "nodeName: node1").replace("\\nexec httpd", "\\ntrap '' TERM\\nexec httpd");
        text.replace("terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 60")
    };
    world.apply(&format!(
        "{}---\napiVersion: v1\nkind: Service\nmetadata: {{name: stay}}\nspec: {{selector: {{app: stay}}, \
         ports: [{{name: http, port: 80, targetPort: 8080}}, {{name: echo, port: 82, targetPort: 8082}}]}}\n",
        deaf("stay-1")
    ));
    let stay = world.cluster_ip("stay");
    world.settles("the first pod", || client.ask(&stay, 80), |answer| answer.starts_with("stay-1 "));
    let mut open = Conversation::start(&world.pod("stay-1"), client, socket(&stay, 82));
    world.kubectl(&["delete", "pod", "stay-1", "--wait=false"]);
    world.until("its endpoint terminates", || {
        let slices =
            world.kubectl(&["get", "endpointslices", "-l", "kubernetes.io/service-name=stay", "-o", "json"]);
        slices.contains("\"terminating\": true")
    });
    // Nothing else is there, so it serves on.
    world.settles(
        "while it terminates",
        || client.ask_often(&stay, 80, 8).join(","),
        |answers| answers.split(',').all(|answer| answer.starts_with("stay-1 ")),
    );
    world.apply(&deaf("stay-2"));
    world.settles("the second pod", || client.ask(&stay, 80), |answer| answer.starts_with("stay-2 "));
    let answers = client.ask_often(&stay, 80, 12);
    assert_eq!(names(&answers), ["stay-2"].into(), "{answers:?}");
    // A connection that was open goes on.
    open.says("still there");
    assert!(world.kubectl(&["get", "pod", "stay-1"]).contains("Terminating"));
    world.kubectl(&["delete", "pod", "stay-1", "stay-2", "--force", "--grace-period=0"]);
}

/// A connection to a server that repeats what it hears.
struct Conversation(TcpStream);

impl Conversation {
    /// The server listens in the pod, at the port that the Service leads to.
    fn start(pod: &Place, client: &Place, service: SocketAddr) -> Conversation {
        let listener = pod.inside(|| TcpListener::bind("0.0.0.0:8082").unwrap());
        std::thread::spawn(move || {
            let (stream, _) = listener.accept()?;
            std::io::copy(&mut stream.try_clone()?, &mut &stream)
        });
        let mut conversation = Conversation(client.inside(|| TcpStream::connect(service).unwrap()));
        conversation.says("hello");
        conversation
    }

    #[track_caller]
    fn says(&mut self, text: &str) {
        self.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        self.0.write_all(text.as_bytes()).unwrap();
        let mut heard = vec![0; text.len()];
        self.0.read_exact(&mut heard).unwrap();
        assert_eq!(heard, text.as_bytes());
    }
}
