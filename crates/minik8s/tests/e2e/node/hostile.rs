//! Objects that the API accepts and that typed readers stumble over: one of every kind that the cluster serves. Nobody
//! goes blind over them, neither at once nor after a new start of the server and of an agent that is a process of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::odd_objects::{self, PLAIN};
use super::space::{Space, idle, is_ready, shell};
use crate::harness::cluster::{Cluster, NODE};

/// Controllers write the same statuses.
const TRIES: usize = 50;

/// A kind as the server itself tells of it.
struct Served {
    /// `NAME.GROUP`
    kind: String,
    api_version: String,
    /// Where its objects are made.
    collection: String,
    has_status: bool,
}

pub async fn hostile_objects(cluster: Arc<Cluster>) {
    let space = Space::new(cluster.clone(), "hostile").await;
    let served = served(&space).await;
    let (mut odd, mut plain) = (BTreeSet::new(), BTreeSet::new());
    for kind in &served {
        let stored = if store(&space, kind).await { &mut odd } else { &mut plain };
        stored.insert(kind.kind.as_str());
    }
    // Neither fewer nor more: a kind that takes odd objects from now on, or that is new, is to be looked at.
    let expected: BTreeSet<&str> = PLAIN.iter().copied().collect();
    assert_eq!(plain, expected, "kinds without an odd object; with one are {odd:?}");
    all_else_works(&space, "before").await;
    cluster.crash_agent();
    cluster.crash_server();
    cluster.start_agent(&[]);
    cluster.restart_server().await;
    all_else_works(&space, "after").await;
    reported(&space).await;
    // And they can be got rid of.
    let own = space.path("services", "odd");
    space.send(Method::DELETE, &own, Value::Null).await.unwrap();
    space.eventually("the odd Service is gone", async || space.get(&own).await.is_none()).await;
}

/// Every kind whose objects can be made and listed, in the version that the server prefers.
async fn served(space: &Space) -> Vec<Served> {
    let groups = space.get("/apis").await.unwrap();
    let groups = groups["groups"].as_array().unwrap().iter();
    let versions = groups.map(|group| group["preferredVersion"]["groupVersion"].as_str().unwrap().to_owned());
    let mut found = Vec::new();
    for version in std::iter::once("v1".to_owned()).chain(versions) {
        let root = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
        let list = space.get(&root).await.unwrap_or_else(|| panic!("{root} is not told"));
        let resources = list["resources"].as_array().unwrap();
        let can = |resource: &Value, verb: &str| resource["verbs"].as_array().unwrap().contains(&json!(verb));
        for resource in resources.iter().filter(|resource| can(resource, "create") && can(resource, "list")) {
            let name = resource["name"].as_str().unwrap();
            let status = format!("{name}/status");
            let namespace = match name {
                // Where they are watched.
                "leases" => "/namespaces/kube-node-lease".to_owned(),
                _ if resource["namespaced"] == true => format!("/namespaces/{}", space.name),
                _ => String::new(),
            };
            let kind = match version.split_once('/') {
                Some((group, _)) => format!("{name}.{group}"),
                None => name.to_owned(),
            };
            found.push(Served {
                kind,
                api_version: version.clone(),
                collection: format!("{root}{namespace}/{name}"),
                has_status: resources.iter().any(|other| other["name"] == status && can(other, "patch")),
            });
        }
    }
    assert!(found.len() > 80, "{} kinds: discovery was not understood", found.len());
    found
}

/// Whether something odd of it is stored.
async fn store(space: &Space, served: &Served) -> bool {
    let (mut object, status) = odd_objects::object(&served.kind, &served.api_version);
    let named = |object: &mut Value, field: &str| {
        if !object[field].is_null() {
            object[field]["namespace"] = space.name.as_str().into();
        }
    };
    // An event is where what it is about is.
    named(&mut object, "involvedObject");
    named(&mut object, "regarding");
    let path = format!("{}/{}", served.collection, object["metadata"]["name"].as_str().unwrap());
    match space.send(Method::POST, &served.collection, object).await {
        Ok(_) => {}
        // A controller made it for another odd object.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{}: {error}", served.collection),
    }
    for _ in 0..TRIES {
        if served.has_status {
            let patch = json!({"status": status});
            let patched = space.send(Method::PATCH, &format!("{path}/status"), patch).await;
            patched.unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        let found = space.get(&path).await.unwrap_or_else(|| panic!("{path} is gone"));
        if odd_objects::is_odd(&found) {
            return true;
        }
        if !served.has_status || PLAIN.contains(&served.kind.as_str()) {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    false
}

/// Controllers, scheduler, kubelet, Services, names, routes: for objects that are made now.
async fn all_else_works(space: &Space, when: &str) {
    let web = format!("web-{when}");
    let serve = "mkdir /w; echo hello >/w/index.html; exec httpd -f -p 8080 -h /w";
    let deployment = format!("/apis/apps/v1/namespaces/{}/deployments", space.name);
    let labels = json!({"app": web});
    let mut container = shell("main", serve);
    container["image"] = minik8s_kubelet::image::BUSYBOX.into();
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": {
        "metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}}});
    let body = json!({"metadata": {"name": web}, "spec": spec});
    space.send(Method::POST, &deployment, body).await.unwrap();
    let ports = json!([{"port": 80, "targetPort": 8080}]);
    space
        .create("services", json!({"metadata": {"name": web}, "spec": {"selector": labels, "ports": ports}}))
        .await;
    let host = format!("{when}.test");
    let rule =
        json!({"host": host, "paths": [{"path": "/", "backend": {"service": {"name": web, "port": 80}}}]});
    let dns = format!("/apis/minik8s.io/v1/namespaces/{}/dns", space.name);
    let body = json!({"metadata": {"name": web}, "spec": {"rules": [rule]}});
    space.send(Method::POST, &dns, body).await.unwrap();
    let client = format!("client-{when}");
    space.pod(&client, idle()).await;
    space.ready(&client).await;
    for url in [format!("http://{web}"), format!("http://{host}:{}", space.cluster.http_port())] {
        space
            .eventually(&format!("{url} {when}"), async || {
                let ask = ["exec", &client, "--", "timeout", "5", "wget", "-qO-", &url];
                space.try_kubectl(&ask).await.out == "hello\n"
            })
            .await;
    }
    let node = format!("/api/v1/nodes/{NODE}");
    space.eventually("a node that is ready", async || is_ready(&space.get(&node).await.unwrap())).await;
}

/// Users see what was left out, on the object itself.
async fn reported(space: &Space) {
    space
        .eventually("an event of the odd Service", async || {
            let events = space.get(&space.path("events", "")).await.unwrap();
            events["items"].as_array().unwrap().iter().any(|event| {
                let message = event["message"].as_str().unwrap_or_default();
                event["reason"] == "UnreadableField"
                    && event["involvedObject"]["kind"] == "Service"
                    && message.contains("status.conditions[0]")
            })
        })
        .await;
}
