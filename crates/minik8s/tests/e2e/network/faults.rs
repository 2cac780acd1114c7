//! Agents that die, servers that are away, cables that are pulled: the data path goes on, and catches up.

use std::io::ErrorKind;
use std::time::Duration;

use super::dns::{A, Answer, over_udp, try_over_udp};
use super::load::Load;
use super::lookups::Lookups;
use super::names;
use super::place::socket;
use super::world::{UDP, WEB, World, pod};

/// kill -9 under load and a new start: no request fails, and the kernel's rules are not even touched.
pub fn killed_agents(world: &mut World) {
    let (web, turns) = (world.cluster_ip("web"), world.cluster_ip("turns"));
    let (client, outside) = (world.pod("client-2"), world.outside());
    let at_node = socket(&world.lab.address(2), world.node_port("web"));
    let before = rules(world, "node2");
    // Somebody else's table is nobody's business.
    world.lab.run(&["exec", "node2", "nft", "add table ip somebody; add chain ip somebody own { counter; }"]);
    let others = || world.lab.run(&["exec", "node2", "nft", "-a", "list", "table", "ip", "somebody"]);
    let theirs = others();
    let last = client.ask(&turns, 80);
    let load = Load::start(&[
        (client.clone(), socket(&web, 80)),
        (world.pod("client-1"), socket(&web, 80)),
        (outside, at_node),
    ]);
    let by_name = Lookups::start(client.clone(), names::server(world), "web.default.svc.cluster.local");
    for node in ["node2", "node1"] {
        let seen = load.count();
        world.lab.run(&["kill", node]);
        world.until("requests go on without it", || load.count() > seen + 200);
        world.lab.run(&["start", node]);
        world.both_ready();
    }
    // Everything that the agents do at their start has been done.
    let seen = load.count();
    world.until("requests go on", || load.count() > seen + 200);
    let (requests, failed) = load.end();
    eprintln!("both agents killed and started: {} of {requests} requests failed", failed.len());
    assert!(failed.is_empty(), "{} of {requests}: {failed:#?}", failed.len());
    let (requests, failed) = by_name.end();
    assert!(requests > 1 && failed.is_empty(), "by name, {} of {requests}: {failed:#?}", failed.len());
    assert_eq!(rules(world, "node2"), before, "chains were made anew");
    assert_eq!(others(), theirs);
    world.lab.run(&["exec", "node2", "nft", "delete", "table", "ip", "somebody"]);
    assert_ne!(client.ask(&turns, 80), last, "turns go on where they were");
}

/// The chains of a node's table with their handles, which the kernel gives once.
fn rules(world: &World, node: &str) -> Vec<String> {
    let table = world.lab.run(&["exec", node, "nft", "-a", "list", "ruleset"]);
    let ours =
        table.split("\ntable ").filter(|table| table.trim_start_matches("table ").starts_with("ip minik8s-"));
    let chains = ours.flat_map(|table| table.lines().filter(|line| line.contains("chain ")));
    chains.map(str::to_owned).collect()
}

/// An agent that starts while no server answers goes on from what it knew.
pub fn nobody_answers(world: &mut World) {
    let (client, web, server) = (world.pod("client-2"), world.cluster_ip("web"), names::server(world));
    let _servers = ["web-1", "web-2"].map(|name| world.pod(name).serve_udp(UDP));
    let node = world.lab.address(2);
    world.lab.run(&["kill", "node1"]);
    let check = || {
        let name = "web.default.svc.cluster.local";
        assert_eq!(over_udp(&client, server, name, A), Answer::is(0, &[&format!("A {web}")]));
        assert_eq!(over_udp(&client, server, "nothing.default.svc.cluster.local", A), Answer::is(3, &[]));
        assert!(client.ask(&web, 80).starts_with("web-"));
        assert!(client.send(&web, 81, 1).starts_with("web-"));
        let (code, body) = client.get(&node, 80, "shop.test", "/two/cgi-bin/who").unwrap();
        assert!(code == 200 && body.starts_with("web-2 "), "{code} {body}");
    };
    check();
    world.restart("node2");
    world.settles(
        "names after a start without a server",
        || format!("{:?}", try_over_udp(&client, server, "web.default.svc.cluster.local", A)),
        |answer| answer.contains(&web),
    );
    world.until("the router is back", || client.get(&node, 80, "shop.test", "/").is_ok());
    check();
    world.lab.run(&["start", "node1"]);
    world.both_ready();
}

/// A node whose agent is dead does not say which rules it has: a pod elsewhere ends all the same.
pub fn a_dead_agent_is_not_waited_for(world: &mut World) {
    const GRACE: u64 = 5;
    let leaving = pod("leaving", "leaving", "nodeName: node1")
        .replace("terminationGracePeriodSeconds: 0", &format!("terminationGracePeriodSeconds: {GRACE}"));
    world.apply(&format!(
        "{leaving}---\napiVersion: v1\nkind: Service\nmetadata: {{name: leaving}}\nspec: {{selector: {{app: leaving}}, ports: [{{port: 80, targetPort: 8080}}]}}\n"
    ));
    let (client, address) = (world.pod("client-1"), world.cluster_ip("leaving"));
    world.settles("the pod", || client.ask(&address, 80), |answer| answer.starts_with("leaving "));
    let (asks, server, name) = (world.pod("client-2"), names::server(world), "web.default.svc.cluster.local");
    world.lab.run(&["kill", "node2"]);
    world.kubectl(&["delete", "pod", "leaving", "--wait=false"]);
    let took = world.until("the pod is gone", || world.try_kubectl(&["get", "pod", "leaving"]).is_err());
    // Its resolver is away, but nobody says so: who asks for a name asks again, and is not refused.
    let silence = try_over_udp(&asks, server, name, A).expect_err("nobody is there");
    assert!(matches!(silence.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");
    world.lab.run(&["start", "node2"]);
    world.settles("names", || format!("{:?}", try_over_udp(&asks, server, name, A)), |a| a.contains("A 10."));
    world.both_ready();
    eprintln!("a pod that ends in {GRACE} s, beside a dead agent: gone after {took:?}");
    assert!(took < Duration::from_secs(GRACE + 20), "{took:?}");
    world.kubectl(&["delete", "service", "leaving"]);
}

/// What changed while the cable was out is there seconds after it is in again.
pub fn a_cut_node(world: &mut World) {
    world.lab.run(&["cut", "node2"]);
    world.until("node2 is not ready", || world.lab.ready() == ["node1"]);
    world.kubectl(&[
        "patch",
        "service",
        "own",
        "--type=merge",
        "-p",
        r#"{"spec":{"ports":[{"port":81,"targetPort":8080}]}}"#,
    ]);
    let (own, web, web_2) = (world.cluster_ip("own"), world.cluster_ip("web"), world.pod("web-2"));
    let (one, two) = (world.pod("client-1"), world.pod("client-2"));
    // On the other side of the cut the Service goes on with what is there.
    world.settles(
        "node1 without node2",
        || one.ask_often(&web, 80, 8).join(","),
        |a| !a.contains("web-2") && !a.contains("failed"),
    );
    assert!(two.ask(&own, 80).starts_with("failed"), "the cable is out");
    // And so it does on the node's own side, with the names it knows.
    let (far, server) = (world.cluster_ip("far"), names::server(world));
    assert!(two.ask(&far, 80).starts_with("web-2 "));
    let known = over_udp(&two, server, "web.default.svc.cluster.local", A);
    assert_eq!(known, Answer::is(0, &[&format!("A {web}")]));
    world.lab.run(&["heal", "node2"]);
    let routes = world.settles(
        "the way to node2",
        || one.ask(&web_2.address.to_string(), WEB),
        |a| a.starts_with("web-2 "),
    );
    let rules = world.settles("node2 knows the new port", || two.ask(&own, 81), |a| a.starts_with("web-1 "));
    let endpoints = world.settles(
        "node1 leads to node2 again",
        || one.ask_often(&web, 80, 16).join(","),
        |answers| answers.contains("web-2") && !answers.contains("failed"),
    );
    eprintln!(
        "a healed node: packets after {routes:?}, new rules {rules:?} later, its endpoints {endpoints:?} later"
    );
    assert!(routes + rules + endpoints < Duration::from_secs(30), "{routes:?} {rules:?} {endpoints:?}");
    world.both_ready();
}
