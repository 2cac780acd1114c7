//! Host names and paths end to end: the real binary with real containers, and `kubectl` as its user. Needs root.

mod client;
mod cluster;

use std::hash::{DefaultHasher, Hash, Hasher};

use client::{Connection, tls};
use cluster::Cluster;

/// Two web servers, each with a Service, and a client.
const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: web
      image: minik8s.io/busybox:1
      command: [sh, -c, "mkdir -p /tmp/w/x; echo NAME >/tmp/w/index.html; echo NAME-x >/tmp/w/x/index.html; exec httpd -f -p 8080 -h /tmp/w"]
      readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec:
  selector: {app: NAME}
  ports: [{name: http, port: 80, targetPort: 8080}]
"#;

/// Busybox's wget speaks HTTP/1.1 and names the host with its port.
fn wget(url: &str) -> [String; 5] {
    ["timeout", "20", "wget", "-qO-", url].map(str::to_owned)
}

fn dns(name: &str, host: &str, paths: &[(&str, &str)]) -> String {
    let paths: String = paths
        .iter()
        .map(|(path, service)| {
            format!("        - {{path: {path}, backend: {{service: {{name: {service}, port: 80}}}}}}\n")
        })
        .collect();
    format!(
        "apiVersion: minik8s.io/v1\nkind: DNS\nmetadata: {{name: {name}}}\nspec:\n  rules:\n    - host: {host}\n      \
         paths:\n{paths}"
    )
}

#[test]
fn host_names_and_paths() {
    let cluster = Cluster::start();
    let pods = ["one", "two", "client"].map(|name| PODS.replace("NAME", name)).join("---");
    cluster.apply(&pods);
    cluster.kubectl(&["wait", "pod", "--all", "--for=condition=Ready", "--timeout=180s"]);

    // A host with two paths: what users see.
    let host = format!("shop{}.example", std::process::id());
    cluster.apply(&dns("shop", &host, &[("/a", "one"), ("/b", "two")]));
    cluster.eventually("both paths are ready", || {
        cluster.kubectl(&["get", "dns", "shop", "--no-headers"]).contains("/a,/b   one:80,two:80   True,True")
    });
    let explained = cluster.kubectl(&["explain", "dns.spec.rules.paths.path"]);
    assert!(explained.contains("Service gets the request without it"), "{explained}");

    // From a pod, and from the node, by name.
    let port = cluster.http_port;
    for (path, expected) in [("/a", "one\n"), ("/a/x/", "one-x\n"), ("/b/x/", "two-x\n")] {
        let url = format!("http://{host}:{port}{path}");
        cluster.eventually(&format!("{path} from a pod"), || {
            cluster.exec("client", &wget(&url)) == Some(expected.to_owned())
        });
        assert_eq!(cluster.on_node(&wget(&url)), Some(expected.to_owned()), "{path} from the node");
    }

    // Changes apply to an open connection, and none of its requests fails.
    let mut connection = Connection::open(port);
    assert_eq!(connection.get(&host, "/a/x/"), (200, "one-x\n".to_owned()));
    cluster.apply(&dns("shop", &host, &[("/a", "two"), ("/b", "two")]));
    cluster.eventually("the open connection sees the change", || {
        let (code, body) = connection.get(&host, "/a/x/");
        assert_eq!(code, 200, "{body}");
        body == "two-x\n"
    });

    // An object that comes later does not get the place, and is told so.
    cluster.apply(&dns("younger", &host, &[("/b", "one"), ("/c", "nobody")]));
    cluster.eventually("the younger object hears of it", || {
        let line = cluster.kubectl(&["get", "dns", "younger", "-o", "wide", "--no-headers"]);
        line.contains("False,False") && line.contains("requests go to DNS default/shop")
    });
    let condition = "jsonpath={.status.conditions[?(@.type==\"Accepted\")].message}";
    let message = cluster.kubectl(&["get", "dns", "younger", "-o", condition]);
    assert_eq!(message, format!("{host}/b belongs to the older DNS default/shop"));
    cluster.eventually("there is an event", || {
        cluster.kubectl(&["get", "events", "--field-selector=reason=Conflict"]).contains("dns/younger")
    });
    assert_eq!(connection.get(&host, "/b/x/"), (200, "two-x\n".to_owned()));
    let (code, body) = connection.get(&host, "/c");
    assert_eq!(code, 503, "{body}");
    assert!(body.contains("Service default/nobody does not exist"), "{body}");

    // Gone: the path, the name in pods, the name on the node.
    cluster.kubectl(&["delete", "dns", "shop", "younger"]);
    cluster.eventually("the path is gone", || connection.get(&host, "/a").0 == 404);
    cluster.eventually("the name is gone from the node", || {
        std::fs::read_to_string(&cluster.hosts_file).unwrap() == "127.0.0.1 localhost\n"
    });
    let url = format!("http://{host}:{port}/a");
    assert_eq!(cluster.exec("client", &wget(&url)), None);

    ingress(&cluster);
    taken_port(&cluster);
    gateway(&cluster);
}

fn ingress(cluster: &Cluster) {
    let certificate = rcgen::generate_simple_self_signed(vec!["web.example".to_owned()]).unwrap();
    let (crt, key) = (
        cluster.file("tls.crt", &certificate.cert.pem()),
        cluster.file("tls.key", &certificate.signing_key.serialize_pem()),
    );
    cluster.kubectl(&["create", "secret", "tls", "web", "--cert", &crt, "--key", &key]);
    cluster.apply(
        r#"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: minik8s
  tls: [{hosts: [web.example], secretName: web}]
  defaultBackend: {service: {name: two, port: {name: http}}}
  rules:
    - host: web.example
      http:
        paths:
          - {path: /x, pathType: Prefix, backend: {service: {name: one, port: {number: 80}}}}
    - host: "*.web.example"
      http:
        paths:
          - {path: /x/, pathType: Exact, backend: {service: {name: one, port: {number: 80}}}}
"#,
    );
    let mut connection = Connection::open(cluster.http_port);
    cluster.eventually("the Ingress is served", || connection.get("web.example", "/x/").1 == "one-x\n");
    for (host, path, body) in [
        ("web.example", "/", "two\n"),
        ("a.web.example", "/x/", "one-x\n"),
        ("b.a.web.example", "/x/", "two-x\n"),
        ("other.example", "/", "two\n"),
    ] {
        assert_eq!(connection.get(host, path), (200, body.to_owned()), "{host}{path}");
    }
    let authority = certificate.cert.der().clone();
    cluster.eventually("TLS with the Secret's certificate", || {
        tls(cluster.https_port, "web.example", &authority)
            .is_some_and(|mut c| c.get("web.example", "/x/").1 == "one-x\n")
    });
    cluster.eventually("the status has the node's address", || {
        let address = cluster.kubectl(&[
            "get",
            "node",
            "-o",
            "jsonpath={.items[0].status.addresses[?(@.type==\"InternalIP\")].address}",
        ]);
        let shown = cluster.kubectl(&[
            "get",
            "ingress",
            "web",
            "-o",
            "jsonpath={.status.loadBalancer.ingress[0].ip}",
        ]);
        !address.is_empty() && shown == address
    });
}

/// A port that somebody else has on a node is named until it is free. (That of a node whose address is its loopback's leads
/// nobody there, so that this one is not programmed.)
fn gateway(cluster: &Cluster) {
    let listeners = |ports: &[u16]| {
        let each = ports.iter().map(|port| format!("{{name: p{port}, port: {port}, protocol: HTTP}}"));
        let gateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: gate}\n";
        let listeners = each.collect::<Vec<_>>().join(", ");
        format!("{gateway}spec: {{gatewayClassName: minik8s, listeners: [{listeners}]}}\n")
    };
    cluster.apply(&listeners(&[80]));
    let shown = |path: &str| cluster.kubectl(&["get", "gateway", "gate", "-o", &format!("jsonpath={path}")]);
    let of = |place: &str| shown(&format!("{{{place}.conditions[?(@.type==\"Programmed\")].message}}"));
    let unled = "its address leads to no node yet";
    cluster.eventually("the node listens", || of(".status") == unled);
    // Where the search for a router's port of another listener begins.
    let mut hasher = DefaultHasher::new();
    (Some(shown("{.metadata.uid}").as_str()), 81_i32, false).hash(&mut hasher);
    let port = 25_000 + u16::try_from(hasher.finish() % 5000).unwrap();
    let taken = std::net::TcpListener::bind(("0.0.0.0", port)).unwrap();
    cluster.apply(&listeners(&[80, 81]));
    let problem = format!("node router-test: cannot listen on port {port}");
    cluster.eventually("the condition names the port", || of(".status").contains(&problem));
    assert!(of(".status.listeners[1]").contains(&problem));
    assert_eq!(of(".status.listeners[0]"), unled, "the other is answered");
    drop(taken);
    cluster.eventually("the port is listened on when it is free", || of(".status.listeners[1]") == unled);
    cluster.kubectl(&["delete", "gateway/gate"]);
}

/// The port is taken by this test before the server starts, and given back now.
fn taken_port(cluster: &Cluster) {
    let events = cluster.kubectl(&["get", "events", "--field-selector=reason=RouterPortInUse", "-o", "wide"]);
    let port = cluster.http_port;
    assert!(events.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{events}");
    assert!(events.contains("start this node with another --http-port"), "{events}");
}
