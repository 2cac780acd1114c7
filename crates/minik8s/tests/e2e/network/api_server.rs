//! The API server as a Service, and as a way to pods and Services; ports of nodes that pods have.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;

use super::dns::{A, Answer, over_udp};
use super::names;
use super::place::socket;
use super::world::{World, pod};

/// `kubernetes` in `default`, with the server's own address behind it, and its name.
pub fn the_api_server_is_a_service(world: &mut World) {
    let all = world.lab.get(&["services", "-A"]);
    let found = all.iter().find(|one| one["metadata"]["name"] == "kubernetes").expect("a Service kubernetes");
    assert_eq!(found["metadata"]["namespace"], "default");
    let address = found["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let port = &found["spec"]["ports"][0];
    assert_eq!((&port["name"], &port["port"]), (&"https".into(), &443.into()));
    let server = world.lab.address(1);
    let endpoints = world.json(&["get", "endpoints", "kubernetes"]);
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], *server);
    let slices = world.lab.get(&["endpointslices", "-l", "kubernetes.io/service-name=kubernetes"]);
    let addresses: Vec<_> =
        slices.iter().map(|slice| slice["endpoints"][0]["addresses"][0].clone()).collect();
    assert_eq!(addresses, [server.as_str()]);
    for client in ["client-1", "client-2"] {
        let client = world.pod(client);
        let answer = over_udp(&client, names::server(world), "kubernetes.default.svc.cluster.local", A);
        assert_eq!(answer, Answer::is(0, &[&format!("A {address}")]));
        let to = socket(&address, 443);
        client.inside(|| TcpStream::connect_timeout(&to, Duration::from_secs(9))).unwrap();
    }
    a_services_status(world);
}

/// The status is apart from the rest, and can be read, patched and replaced.
fn a_services_status(world: &World) {
    world.apply("{apiVersion: v1, kind: Service, metadata: {name: told}, spec: {type: LoadBalancer, loadBalancerClass: example.org/own, ports: [{port: 80}]}}");
    let status = |arguments: &[&str]| world.kubectl(&[arguments, &["--subresource=status"]].concat());
    let patch = r#"{"metadata":{"annotations":{"patched":"yes"}},"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.1"}]}}}"#;
    status(&["patch", "service", "told", "--type=merge", "-p", patch]);
    assert!(status(&["get", "service", "told", "-o", "json"]).contains("203.0.113.1"));
    let mut object = world.json(&["get", "service", "told"]);
    object["status"]["loadBalancer"]["ingress"][0]["ip"] = "203.0.113.2".into();
    object["spec"]["ports"][0]["port"] = 81.into();
    let file = world.lab.dir.join("told.json");
    std::fs::write(&file, object.to_string()).unwrap();
    status(&["replace", "-f", file.to_str().unwrap()]);
    let object = world.json(&["get", "service", "told"]);
    assert_eq!(object["status"]["loadBalancer"]["ingress"][0]["ip"], "203.0.113.2");
    assert_eq!(
        (&object["spec"]["ports"][0]["port"], &object["metadata"]["annotations"]["patched"]),
        (&80.into(), &"yes".into())
    );
    world.kubectl(&["patch", "service", "told", "-p", r#"{"metadata":{"labels":{"a":"b"}}}"#]);
    world.kubectl(&["delete", "service", "told"]);
}

/// Requests of every method, with and without a path, to pods and Services.
pub fn the_api_server_is_a_way_in(world: &mut World) {
    let _server = Echo::start(world.pod("web-2").inside(|| TcpListener::bind("0.0.0.0:8090").unwrap()));
    world.apply("{apiVersion: v1, kind: Service, metadata: {name: echo}, spec: {selector: {name: web-2}, ports: [{name: http, port: 80, targetPort: 8090}]}}");
    world.with_client(async |client| {
        for target in ["pods/web-2:8090", "services/echo:80", "services/http:echo:http"] {
            for below in ["", "/", "/some/path?x=1", "/with%20space/", "/a%3Fb//c?d=%20"] {
                for method in
                    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS]
                {
                    let uri = format!("/api/v1/namespaces/default/{target}/proxy{below}");
                    let request =
                        Request::builder().method(method.clone()).uri(&uri).body(Vec::new()).unwrap();
                    let answer = client.send(request.map(Into::into)).await.unwrap();
                    // Without a path a GET is led to the same with a slash.
                    if below.is_empty() && method == Method::GET {
                        assert_eq!(answer.status(), StatusCode::MOVED_PERMANENTLY, "{uri}");
                        assert_eq!(answer.headers()["location"], format!("{uri}/"));
                        continue;
                    }
                    let text = answer.into_body().collect().await.unwrap().to_bytes();
                    let seen = if below.is_empty() { "/" } else { below };
                    assert_eq!(String::from_utf8_lossy(&text), format!("{method} {seen}"), "{uri}");
                }
            }
        }
    });
    world.kubectl(&["delete", "service", "echo"]);
}

/// Answers every request with its method and path.
struct Echo;

impl Echo {
    fn start(listener: TcpListener) -> Echo {
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut head = Vec::new();
                    let mut buffer = [0; 4096];
                    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                        match stream.read(&mut buffer) {
                            Ok(length) if length > 0 => head.extend(&buffer[..length]),
                            _ => return,
                        }
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    let line: Vec<&str> = head.split(' ').take(2).collect();
                    let body = line.join(" ");
                    let length = body.len();
                    let _ = write!(
                        stream,
                        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                    );
                });
            }
        });
        Echo
    }
}

/// Pods that want one port of a node, but for different addresses or protocols, share the node.
pub fn host_ports(world: &mut World) {
    let node = world.lab.address(2);
    let port = |name: &str, more: &str| {
        let wanted = format!("containerPort: 8080, hostPort: 8099, {more}");
        pod(name, "host", "nodeName: node2").replace("containerPort: 8080", &wanted)
    };
    world.apply(
        &[
            port("host-1", "hostIP: 127.0.0.1"),
            port("host-2", &format!("hostIP: {node}")),
            port("host-3", &format!("hostIP: {node}, protocol: UDP")),
        ]
        .join("---\n"),
    );
    world.kubectl(&["wait", "pod", "-l", "app=host", "--for=condition=Ready", "--timeout=180s"]);
    let _server = world.pod("host-3").serve_udp(8080);
    let client = world.pod("client-1");
    world.settles("the node's port", || client.ask(&node, 8099), |answer| answer.starts_with("host-2 "));
    world.settles("the node's port", || client.send(&node, 8099, 3), |answer| answer.starts_with("host-3 "));
    world.settles(
        "its loopback",
        || world.node(2).ask("127.0.0.1", 8099),
        |answer| answer.starts_with("host-1 "),
    );
    world.kubectl(&["delete", "pod", "-l", "app=host"]);
}
