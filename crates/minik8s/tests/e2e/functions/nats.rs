//! Messages of a real NATS server, in a pod of Debian's package, fire a function.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::site::{Site, eventually};
use crate::harness::cluster::Cluster;

const SERVER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: nats, labels: {app: nats}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: nats
    image: test.example/nats:1
    args: [-a, 0.0.0.0, --user, shop, --pass, s3cret]
    readinessProbe: {tcpSocket: {port: 4222}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: nats}
spec: {selector: {app: nats}, ports: [{port: 4222}]}
";

#[test]
fn messages_of_a_nats_subject_fire_a_function() {
    Cluster::builder().run(|cluster| {
        let site = Site::new(&cluster, "shop");
        image(&cluster, &site);
        site.apply(SERVER);
        site.kubectl(&["wait", "pod/nats", "--for=condition=Ready", "--timeout=180s"]);
        let note = site.file("note.py", "def main(event): return event\n");
        site.run(&["create", "note", "--from", &note, "--concurrency", "4"]);
        site.kubectl(&[
            "create",
            "secret",
            "generic",
            "nats",
            "--from-literal=user=shop",
            "--from-literal=password=s3cret",
        ]);
        let common = ["--url", "nats://nats:4222", "--subject", "orders.*", "--function", "note"];
        site.trigger(&[&["create", "nats", "orders", "--secret", "nats"], &common[..]].concat());
        eventually("it listens", || ready(&site, "orders") == "True");
        let ip = site.get("pod/nats")["status"]["podIP"].as_str().unwrap().to_owned();
        let mut publisher = Publisher::connect(&ip);
        publisher.publish("orders.paid", "", r#"{"total": 7}"#);
        publisher.publish("other", "", "not for us");
        // A message that is published twice under one id fires once.
        for _ in 0..2 {
            publisher.publish("orders.sent", "Nats-Msg-Id: m-1", "plain text");
        }
        publisher.publish("orders.last", "", "\u{1}");
        eventually("the messages' calls", || results(&site).len() >= 3);
        let all = results(&site);
        let find = |subject: &str| all.iter().filter(|one| one["subject"] == subject).collect::<Vec<_>>();
        assert_eq!(find("orders.paid")[0]["data"], json!({"total": 7}), "{all:?}");
        assert_eq!((find("orders.sent").len(), &find("orders.sent")[0]["data"]), (1, &json!("plain text")));
        assert!(find("other").is_empty());
        assert_eq!(find("orders.paid")[0]["type"], "io.minik8s.nats");
        eventually("they are counted", || site.get("trigger/orders")["status"]["fired"].as_i64() >= Some(3));
        wrong_password(&site, &common);
        site.trigger(&["delete", "orders", "guess"]);
        eventually("its pod goes with it", || site.get("pods").to_string().matches("-nats\"").count() == 0);
    });
}

/// A server that refuses is told in the trigger's status.
fn wrong_password(site: &Site, common: &[&str]) {
    site.kubectl(&[
        "create",
        "secret",
        "generic",
        "wrong",
        "--from-literal=user=shop",
        "--from-literal=password=guess",
    ]);
    site.trigger(&[&["create", "nats", "guess", "--secret", "wrong"], common].concat());
    eventually("the refusal is told", || {
        site.get("trigger/guess")["status"]["conditions"].to_string().contains("refuses the subscription")
    });
}

fn ready(site: &Site, trigger: &str) -> String {
    let conditions = site.get(&format!("trigger/{trigger}"))["status"]["conditions"].clone();
    conditions[0]["status"].as_str().unwrap_or_default().to_owned()
}

fn results(site: &Site) -> Vec<Value> {
    let all = site.get("invocations");
    let all = all["items"].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|one| serde_json::from_str(one["status"]["result"].as_str()?).ok()).collect()
}

/// The server of Debian's package, with nothing else in its image.
fn image(cluster: &Cluster, site: &Site) {
    let empty = site.file("nats.md", "a message bus\n");
    let words =
        ["image", "build", &empty, "--base", "minik8s.io/function-python:3.11-7", "--package", "nats-server"];
    let to = ["--tag", "test.example/nats:1", "--entrypoint", "/usr/sbin/nats-server"];
    let dir = ["--data-dir", cluster.dir.to_str().unwrap()];
    site.kubectl(&[&words[..], &to[..], &dir[..]].concat());
}

struct Publisher(TcpStream);

impl Publisher {
    fn connect(ip: &str) -> Publisher {
        let mut stream = TcpStream::connect((ip, 4222)).unwrap();
        let mut info = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut info).unwrap();
        assert!(info.starts_with("INFO "), "{info}");
        let options = json!({"verbose": false, "headers": true, "user": "shop", "pass": "s3cret"});
        stream.write_all(format!("CONNECT {options}\r\n").as_bytes()).unwrap();
        Publisher(stream)
    }

    fn publish(&mut self, subject: &str, header: &str, text: &str) {
        let message = match header {
            "" => format!("PUB {subject} {}\r\n{text}\r\n", text.len()),
            header => {
                let head = format!("NATS/1.0\r\n{header}\r\n\r\n");
                format!("HPUB {subject} {} {}\r\n{head}{text}\r\n", head.len(), head.len() + text.len())
            }
        };
        self.0.write_all(message.as_bytes()).unwrap();
    }
}
