//! What upstream's suite has kubectl do with real pods: replication controllers that are created, scaled, described,
//! exposed and patched, and an application of several parts.

use minik8s_kubelet::image::{BUSYBOX, WEB};
use serde_json::{Value, json};

use super::space::Space;
use crate::harness::cluster::NODE;

/// A controller of web servers, in the form in which people write it.
fn controller(replicas: u32) -> String {
    json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "demo"},
        "spec": {"replicas": replicas, "selector": {"name": "demo"}, "template": {
            "metadata": {"labels": {"name": "demo", "version": "v1"}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
                "name": "web", "image": WEB, "env": [{"name": "PORT", "value": "6379"}],
                "ports": [{"name": "server", "containerPort": 6379}]}]}}},
    })
    .to_string()
}

/// Waits until so many pods run, none more is there, and each answers.
async fn running(space: &Space, count: usize) -> Vec<String> {
    let template = "{range .items[*]}{.metadata.name} {.status.containerStatuses[0].state.running.startedAt} \
        {.metadata.deletionTimestamp}{\"\\n\"}{end}";
    let mut names = Vec::new();
    space
        .eventually(&format!("{count} run"), async || {
            let output = format!("-o=jsonpath={template}");
            let listed = space.kubectl(&["get", "pods", "-l", "name=demo", &output]).await;
            let pods: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
            names = pods.iter().filter(|pod| pod.len() == 2).map(|pod| pod[0].to_owned()).collect();
            pods.len() == count && names.len() == count
        })
        .await;
    for name in &names {
        let path = space.path("pods", &format!("{name}:6379/proxy/"));
        space
            .eventually("an answer", async || {
                space.try_kubectl(&["get", "--raw", &path]).await.out.trim() == name
            })
            .await;
    }
    names
}

/// Two, one, two and none.
pub async fn update_demo(space: Space) {
    assert!(create(&space, &controller(2)).await.contains("replicationcontroller/demo created"));
    running(&space, 2).await;
    for count in [1, 2] {
        let said =
            space.kubectl(&["scale", "rc", "demo", &format!("--replicas={count}"), "--timeout=5m"]).await;
        assert!(said.contains("replicationcontroller/demo scaled"), "{said}");
        running(&space, count).await;
    }
    space.kubectl(&["delete", "rc", "demo"]).await;
    let left = async || space.kubectl(&["get", "rc,pods", "-l", "name=demo", "-o", "name"]).await;
    space.eventually("all gone", async || left().await.is_empty()).await;
}

/// The same servers by a ReplicaSet: each says its own name.
pub async fn served_by_a_replica_set(space: Space) {
    let mut set: Value = serde_json::from_str(&controller(2)).unwrap();
    set["apiVersion"] = "apps/v1".into();
    set["kind"] = "ReplicaSet".into();
    set["spec"]["selector"] = json!({"matchLabels": {"name": "demo"}});
    assert!(create(&space, &set.to_string()).await.contains("replicaset.apps/demo created"));
    let names = running(&space, 2).await;
    assert!(names[0] != names[1] && names.iter().all(|name| name.starts_with("demo-")), "{names:?}");
}

/// Services for a controller and for a Service, annotations for its pods, and all of it described.
pub async fn exposed_and_described(space: Space) {
    create(&space, &controller(1)).await;
    let pod = running(&space, 1).await.remove(0);
    for (what, name, port) in [("rc", "demo", "1234"), ("service", "rm2", "2345")] {
        let to = if what == "rc" { "rm2" } else { "rm3" };
        let named = format!("--name={to}");
        space.kubectl(&["expose", what, name, &named, &format!("--port={port}"), "--target-port=6379"]).await;
        let ports = "{.spec.ports[0].port} {.spec.ports[0].targetPort}";
        let ports = space.kubectl(&["get", "service", to, "-o", &format!("jsonpath={ports}")]).await;
        assert_eq!(ports, format!("{port} 6379"));
        let path = space.path("services", &format!("{to}:{port}/proxy/"));
        space
            .eventually("an answer", async || {
                space.try_kubectl(&["get", "--raw", &path]).await.out.trim() == pod
            })
            .await;
    }

    let patch = r#"{"metadata":{"annotations":{"x":"y"}}}"#;
    assert!(space.kubectl(&["patch", "pod", &pod, "-p", patch]).await.contains("patched"));
    let annotations = "{range .items[*]}{.metadata.annotations.x}{end}";
    let annotations = format!("jsonpath={annotations}");
    assert_eq!(space.kubectl(&["get", "pods", "-l", "name=demo", "-o", &annotations]).await, "y");

    let namespace = space.name.as_str();
    described(
        &space,
        &["pod", &pod],
        &["Name:", namespace, "name=demo", "Running", WEB, "Controlled By:", NODE],
    )
    .await;
    described(
        &space,
        &["rc", "demo"],
        &["Selector:", "1 current / 1 desired", "1 Running", "SuccessfulCreate"],
    )
    .await;
    described(&space, &["service", "rm2"], &["Selector:", "name=demo", "1234/TCP", "6379/TCP", "Endpoints:"])
        .await;
    described(&space, &["node", NODE], &["Labels:", "Conditions:", "MemoryPressure", "Capacity:", &pod])
        .await;
    described(&space, &["namespace", namespace], &["Status:", "Active", "No resource quota."]).await;
}

async fn create(space: &Space, manifest: &str) -> String {
    let said = space.kubectl_with_input(&["create", "-f", "-"], manifest.as_bytes()).await;
    assert_eq!(said.code, 0, "{said:?}");
    said.out
}

async fn described(space: &Space, what: &[&str], parts: &[&str]) {
    let text = space.kubectl(&[&["describe"], what].concat()).await;
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

/// One part of the guestbook: a web server with one script, behind a Service of its name.
fn part(name: &str, replicas: u32, script: &str) -> Vec<Value> {
    let serve = format!(
        "mkdir -p /tmp/www/cgi-bin; touch /tmp/entries; cat >/tmp/www/cgi-bin/book <<'END'\n#!/bin/sh\n\
         echo 'Content-Type: text/plain'; echo\n{script}\nEND\n\
         chmod +x /tmp/www/cgi-bin/book; exec httpd -f -p 80 -h /tmp/www"
    );
    let labels = json!({"app": "guestbook", "part": name});
    let container = json!({"name": name, "image": BUSYBOX, "command": ["sh", "-c", serve],
        "ports": [{"containerPort": 80}]});
    vec![
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels},
            "spec": {"selector": labels, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}}}),
    ]
}

/// A front end writes entries into a primary and reads them from replicas, which ask the primary; each finds the other
/// by the name of its Service.
pub async fn guestbook(space: Space) {
    let ask = |host: &str| format!("exec wget -qO- \"http://{host}/cgi-bin/book?$QUERY_STRING\"");
    let primary = "case $QUERY_STRING in set=*) echo \"${QUERY_STRING#set=}\" >>/tmp/entries; echo kept ;; \
        *) cat /tmp/entries ;; esac";
    let frontend =
        format!("case $QUERY_STRING in set=*) {} ;; *) {} ;; esac", ask("primary"), ask("replica"));
    let parts =
        [part("primary", 1, primary), part("replica", 2, &ask("primary")), part("frontend", 3, &frontend)];
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": parts.concat()});
    create(&space, &manifest.to_string()).await;
    for deployment in ["primary", "replica", "frontend"] {
        let name = format!("deployment/{deployment}");
        space.kubectl(&["rollout", "status", &name, "--timeout=170s"]).await;
    }
    let path = |query: &str| space.path("services", &format!("frontend:80/proxy/cgi-bin/book?{query}"));
    let get = async |query: &str| space.try_kubectl(&["get", "--raw", &path(query)]).await.out;
    space.eventually("kept", async || get("set=TestEntry").await.trim() == "kept").await;
    space.eventually("read", async || get("").await.lines().any(|line| line == "TestEntry")).await;
    space.kubectl(&["delete", "deployment,service", "-l", "app=guestbook"]).await;
    let left = async || space.kubectl(&["get", "all", "-l", "app=guestbook", "-o", "name"]).await;
    space.eventually("all gone", async || left().await.is_empty()).await;
}
