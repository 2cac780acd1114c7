//! Helm's requests, as Helm 3 and Helm 4 make them: discovery, CRDs first, hooks, the objects of a chart in their order, three-way
//! strategic patches or server-side apply, waiting, and release records in Secrets. The charts are rendered already.

mod charts;
mod patch;
mod release;

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

use self::release::{Way, is_same};
use super::{client, code};
use crate::harness::Server;

const NAMESPACE: &str = "helm";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TIMEOUT: Duration = Duration::from_secs(120);

const SHOP_1: &str = include_str!("charts/shop-1.yaml");
const SHOP_2: &str = include_str!("charts/shop-2.yaml");
const HOOK: &str = include_str!("charts/hook.yaml");
const OPERATOR_CRDS: &str = include_str!("charts/operator-crds.yaml");
const OPERATOR: &str = include_str!("charts/operator.yaml");

/// In the order in which Helm installs kinds; it uninstalls them the other way round.
const ORDER: [&str; 19] = [
    "NetworkPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "IngressClass",
    "Ingress",
    "ValidatingWebhookConfiguration",
];

fn chart(text: &str) -> Vec<Value> {
    let mut objects: Vec<Value> =
        text.split("---\n").map(|part| serde_saphyr::from_str(part).expect("a manifest")).collect();
    let place = |object: &Value| ORDER.iter().position(|kind| object["kind"] == *kind).unwrap_or(ORDER.len());
    objects.sort_by_key(place);
    objects
}

struct Helm {
    client: Client,
    discovery: Vec<Value>,
}

impl Helm {
    async fn new(server: &Server) -> Helm {
        let mut helm = Helm { client: client(server).await, discovery: Vec::new() };
        helm.discover().await;
        helm
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> Result<Value, u16> {
        let kind = if kind.is_empty() { "application/json" } else { kind };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.header("accept", "application/json").body(body).expect("a request");
        self.client.request::<Value>(request).await.map_err(code)
    }

    /// Both documents, in one answer each, as client-go asks for them.
    async fn discover(&mut self) {
        let mut groups = Vec::new();
        for path in ["/api", "/apis"] {
            let request =
                Request::get(path).header("accept", AGGREGATED).body(Vec::new()).expect("a request");
            let found: Value = self.client.request(request).await.expect("aggregated discovery");
            assert_eq!(found["kind"], "APIGroupDiscoveryList");
            groups.extend(found["items"].as_array().expect("groups").clone());
        }
        self.discovery = groups;
    }

    /// Whether the kind of a definition is there.
    fn discovers(&self, definition: &Value) -> bool {
        let groups =
            self.discovery.iter().filter(|item| item["metadata"]["name"] == definition["spec"]["group"]);
        let versions = groups.flat_map(|item| item["versions"].as_array().into_iter().flatten());
        let mut resources = versions.flat_map(|item| item["resources"].as_array().into_iter().flatten());
        resources.any(|item| item["responseKind"]["kind"] == definition["spec"]["names"]["kind"])
    }

    /// Where the object is, by discovery alone: the collection, and itself.
    fn place(&self, object: &Value) -> (String, String) {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let of_group = |item: &&Value| item["metadata"]["name"].as_str().unwrap_or_default() == group;
        let versions = self.discovery.iter().filter(of_group).flat_map(|item| item["versions"].as_array());
        let version = versions.flatten().find(|item| item["version"] == version).expect("a served version");
        let mut resources = version["resources"].as_array().into_iter().flatten();
        let is_kind = |item: &&Value| item["responseKind"]["kind"] == object["kind"];
        let resource = resources.find(is_kind).unwrap_or_else(|| panic!("{} is not served", object["kind"]));
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let version = version["version"].as_str().unwrap_or_default();
        let space = match resource["scope"].as_str() {
            Some("Namespaced") => format!("/namespaces/{NAMESPACE}"),
            _ => String::new(),
        };
        let all = format!("{root}/{version}{space}/{}", resource["resource"].as_str().unwrap_or_default());
        let one = format!("{all}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        (all, one)
    }

    async fn get(&self, object: &Value) -> Result<Value, u16> {
        self.send(Method::GET, &self.place(object).1, "", &Value::Null).await
    }

    async fn create(&self, object: &Value) -> Value {
        assert_eq!(self.get(object).await, Err(404), "Helm looks first");
        let path = format!("{}?fieldManager=helm", self.place(object).0);
        let made = self.send(Method::POST, &path, "", object).await;
        made.unwrap_or_else(|code| panic!("{code}: {object}"))
    }

    async fn patch(&self, object: &Value, kind: &str, patch: &Value) -> Value {
        let path = format!("{}?fieldManager=helm", self.place(object).1);
        let patched = self.send(Method::PATCH, &path, kind, patch).await;
        patched.unwrap_or_else(|code| panic!("{code}: {patch}"))
    }

    /// What others than Helm change.
    async fn meddle(&self, object: &Value, kind: &str, patch: &Value) {
        let path = format!("{}?fieldManager=somebody", self.place(object).1);
        let patched = self.send(Method::PATCH, &path, kind, patch).await;
        patched.unwrap_or_else(|code| panic!("{code}: {patch}"));
    }

    /// As Helm 4 writes everything.
    async fn apply(&self, object: &Value, force: bool) -> Result<Value, u16> {
        let path = format!("{}?fieldManager=helm&force={force}&fieldValidation=Strict", self.place(object).1);
        self.send(Method::PATCH, &path, APPLY, object).await
    }

    async fn delete(&self, object: &Value) {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        match self.send(Method::DELETE, &self.place(object).1, "", &options).await {
            Ok(_) | Err(404) => {}
            Err(code) => panic!("{code}: {object}"),
        }
        self.until(object, "gone", |found| found.is_none()).await;
    }

    /// Waits for a condition of an object.
    async fn until(&self, object: &Value, what: &str, is: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let begun = Instant::now();
        loop {
            let found = self.get(object).await.ok();
            if is(found.as_ref()) {
                return found;
            }
            assert!(begun.elapsed() < TIMEOUT, "{} is never {what}: {found:?}", object["metadata"]["name"]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until a list is empty.
    async fn until_none(&self, path: &str) {
        let begun = Instant::now();
        loop {
            let list = self.send(Method::GET, path, "", &Value::Null).await.expect("a list");
            if list["items"].as_array().is_none_or(Vec::is_empty) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "{path} is never empty: {list}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Definitions come before anything else, until their kinds are served.
    async fn define(&mut self, definitions: &[Value], way: Way) {
        for definition in definitions {
            match way {
                Way::Patch => drop(self.create(definition).await),
                Way::Apply => drop(self.apply(definition, false).await.expect("a definition")),
            }
            self.until(definition, "established", |found| has_condition(found, "Established")).await;
        }
        let begun = Instant::now();
        self.discover().await;
        while !definitions.iter().all(|definition| self.discovers(definition)) {
            assert!(begun.elapsed() < TIMEOUT, "not all kinds are served");
            self.discover().await;
        }
    }

    /// A hook: the one of the last time goes, a Job runs, and Helm waits for its end.
    async fn hook(&self, manifest: &str) {
        for object in chart(manifest) {
            self.delete(&object).await;
            self.create(&object).await;
            if object["kind"] == "Job" {
                self.until(&object, "complete", |found| has_condition(found, "Complete")).await;
            }
        }
    }

    /// What `--wait` looks at.
    async fn wait(&self, objects: &[Value]) {
        const WORKLOADS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];
        for object in objects.iter().filter(|object| WORKLOADS.iter().any(|kind| object["kind"] == *kind)) {
            self.until(object, "ready", |found| found.is_some_and(is_ready)).await;
        }
    }

    /// The record of a revision, as Helm writes it: a Secret of its own type, found by labels.
    async fn record(&self, name: &str, version: u32, status: &str) {
        let secret = format!("sh.helm.release.v1.{name}.v{version}");
        let release = json!({"name": name, "version": version, "info": {"status": status}}).to_string();
        let labels = json!({"name": name, "owner": "helm", "status": status, "version": version.to_string()});
        let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {"name": secret, "labels": labels},
            // Encoded twice: once by Helm, once by JSON.
            "data": {"release": STANDARD.encode(STANDARD.encode(release))}});
        let (all, one) = self.place(&object);
        let written = match self.get(&object).await {
            Ok(_) => self.send(Method::PUT, &one, "", &object).await,
            Err(_) => self.send(Method::POST, &all, "", &object).await,
        };
        written.unwrap_or_else(|code| panic!("{code}: {object}"));
    }

    /// `helm history`: versions and their status.
    async fn history(&self, name: &str) -> Vec<(String, String)> {
        let selector = format!("labelSelector=name%3D{name}%2Cowner%3Dhelm");
        let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets?{selector}");
        let list = self.send(Method::GET, &path, "", &Value::Null).await.expect("a list");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = list["items"].as_array().into_iter().flatten();
        items
            .map(|item| {
                assert_eq!(item["type"], "helm.sh/release.v1");
                let labels = &item["metadata"]["labels"];
                (text(&labels["version"]), text(&labels["status"]))
            })
            .collect()
    }

    /// `helm uninstall`.
    async fn uninstall(&self, name: &str, objects: &[Value]) {
        for object in objects.iter().rev() {
            self.delete(object).await;
        }
        for (version, _) in self.history(name).await {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/sh.helm.release.v1.{name}.v{version}");
            self.send(Method::DELETE, &path, "", &Value::Null).await.expect("the record goes");
        }
        assert!(self.history(name).await.is_empty());
    }
}

fn has_condition(found: Option<&Value>, name: &str) -> bool {
    let conditions = found.and_then(|found| found["status"]["conditions"].as_array());
    conditions.into_iter().flatten().any(|c| c["type"] == name && c["status"] == "True")
}

/// Whether all pods of a workload are of its last version, and ready.
fn is_ready(workload: &Value) -> bool {
    let (spec, status) = (&workload["spec"], &workload["status"]);
    let number = |value: &Value| value.as_i64().unwrap_or_default();
    let (wanted, updated, ready) = match workload["kind"].as_str() {
        Some("DaemonSet") => {
            (&status["desiredNumberScheduled"], &status["updatedNumberScheduled"], &status["numberReady"])
        }
        _ => (&spec["replicas"], &status["updatedReplicas"], &status["readyReplicas"]),
    };
    number(&status["observedGeneration"]) >= number(&workload["metadata"]["generation"])
        && number(updated) == number(wanted)
        && number(ready) >= number(wanted)
}

/// `helm upgrade` and `helm rollback` are one thing: from these objects to those.
async fn change(helm: &Helm, from: &[Value], to: &[Value]) {
    for object in to {
        let Some(before) = from.iter().find(|other| is_same(other, object)) else {
            helm.create(object).await;
            continue;
        };
        let found = helm.get(object).await.expect("it is there");
        let kind = patch_type(object);
        let patch = patch::three_way(before, object, &found, kind == STRATEGIC);
        if patch != json!({}) {
            helm.patch(object, kind, &patch).await;
        }
    }
    for gone in from.iter().filter(|object| !to.iter().any(|other| is_same(object, other))) {
        helm.delete(gone).await;
    }
}

/// Of kinds that Helm has no type of, and of definitions, it merges no list.
fn patch_type(object: &Value) -> &'static str {
    let is_custom = object["apiVersion"].as_str().is_some_and(|version| version.contains(".example.com/"));
    if is_custom || object["kind"] == "CustomResourceDefinition" { MERGE } else { STRATEGIC }
}

fn names(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.map(|item| item[field].as_str().unwrap_or_default().to_owned()).collect()
}

async fn check_shop(helm: &Helm, version: &str) {
    let (old, new) = (chart(SHOP_1), chart(SHOP_2));
    let of = |kind: &str| new.iter().find(|object| object["kind"] == kind).expect("a kind of the chart");
    let deployment = helm.get(of("Deployment")).await.expect("it is there");
    let (containers, ports) = match version {
        "1.0.0" => (vec!["shop"], vec!["http"]),
        _ => (vec!["shop", "metrics"], vec!["http", "metrics"]),
    };
    assert_eq!(names(&deployment["spec"]["template"]["spec"]["containers"], "name"), containers);
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, format!("registry.example.com/shop:{version}"));
    let service = helm.get(of("Service")).await.expect("it is there");
    assert_eq!(names(&service["spec"]["ports"], "name"), ports);
    let config = helm.get(of("ConfigMap")).await.expect("it is there");
    assert!(config["data"]["shop.conf"].as_str().is_some_and(|text| text.contains(version)), "{config}");
    assert_eq!(helm.get(of("HorizontalPodAutoscaler")).await.is_ok(), version == "2.0.0");
    for object in &old {
        let found = helm.get(object).await.expect("it is there");
        assert_eq!(
            found["metadata"]["labels"]["helm.sh/chart"],
            format!("shop-{version}"),
            "{}",
            object["kind"]
        );
        assert_eq!(found["metadata"]["annotations"]["meta.helm.sh/release-name"], "shop");
    }
}

/// Helm with a namespace for its releases.
async fn started(server: &Server) -> Helm {
    let helm = Helm::new(server).await;
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    helm.send(Method::POST, "/api/v1/namespaces", "", &space).await.expect("--create-namespace");
    helm
}

/// One release after the other, on one server.
#[tokio::test]
async fn helm_installs_upgrades_rolls_back_and_uninstalls() {
    let server = Server::start_with_nodes(2);
    let helm = started(&server).await;
    helm_3_installs_upgrades_and_rolls_back(&helm).await;
    helm_4_takes_over_and_applies(&helm).await;
    helm_installs_definitions_first(helm).await;
}

async fn helm_3_installs_upgrades_and_rolls_back(helm: &Helm) {
    let (old, new) = (chart(SHOP_1), chart(SHOP_2));
    // helm install shop --wait
    helm.record("shop", 1, "pending-install").await;
    helm.hook(HOOK).await;
    for object in &old {
        helm.create(object).await;
    }
    helm.wait(&old).await;
    helm.record("shop", 1, "deployed").await;
    check_shop(helm, "1.0.0").await;
    // Somebody changed what no chart says; a three-way patch leaves it.
    let deployment = old.iter().find(|object| object["kind"] == "Deployment").expect("it is in the chart");
    helm.patch(deployment, MERGE, &json!({"metadata": {"annotations": {"by": "hand"}}})).await;
    // helm upgrade shop --wait
    helm.record("shop", 2, "pending-upgrade").await;
    helm.hook(HOOK).await;
    change(helm, &old, &new).await;
    helm.wait(&new).await;
    helm.record("shop", 1, "superseded").await;
    helm.record("shop", 2, "deployed").await;
    check_shop(helm, "2.0.0").await;
    assert_eq!(helm.get(deployment).await.expect("it is there")["metadata"]["annotations"]["by"], "hand");
    // helm rollback shop 1 --wait
    helm.record("shop", 3, "pending-rollback").await;
    change(helm, &new, &old).await;
    helm.wait(&old).await;
    helm.record("shop", 2, "superseded").await;
    helm.record("shop", 3, "deployed").await;
    check_shop(helm, "1.0.0").await;
    let history = helm.history("shop").await;
    let told: Vec<(&str, &str)> =
        history.iter().map(|(version, status)| (version.as_str(), status.as_str())).collect();
    assert_eq!(told, [("1", "superseded"), ("2", "superseded"), ("3", "deployed")]);
}

/// Helm 4 takes the release over, and applies on the server's side.
async fn helm_4_takes_over_and_applies(helm: &Helm) {
    let (old, new) = (chart(SHOP_1), chart(SHOP_2));
    for object in &new {
        own_by_apply(helm, object).await;
        helm.apply(object, false).await.unwrap_or_else(|code| panic!("{code}: {object}"));
    }
    check_shop(helm, "2.0.0").await;
    let applied =
        helm.get(new.iter().find(|o| o["kind"] == "Deployment").expect("a Deployment")).await.expect("it");
    let managers = applied["metadata"]["managedFields"].as_array().expect("managers");
    let operations: Vec<(&Value, &Value)> = managers
        .iter()
        .filter(|m| m["manager"] == "helm")
        .map(|m| (&m["manager"], &m["operation"]))
        .collect();
    assert_eq!(operations, [(&json!("helm"), &json!("Apply"))], "the old way's fields are Helm 4's now");
    // Another's field is a conflict, and only force takes it.
    let config = new.iter().find(|object| object["kind"] == "ConfigMap").expect("a ConfigMap");
    let path = format!("{}?fieldManager=somebody", helm.place(config).1);
    helm.send(Method::PATCH, &path, MERGE, &json!({"data": {"shop.conf": "mine"}})).await.expect("a patch");
    assert_eq!(helm.apply(config, false).await, Err(409));
    helm.apply(config, true).await.expect("--force-conflicts");
    // What the next version leaves out goes, field by field and list item by list item.
    for object in &old {
        helm.apply(object, false).await.unwrap_or_else(|code| panic!("{code}: {object}"));
    }
    for gone in new.iter().filter(|object| object["kind"] == "HorizontalPodAutoscaler") {
        helm.delete(gone).await;
    }
    check_shop(helm, "1.0.0").await;
    helm.uninstall("shop", &old).await;
    assert_eq!(helm.get(&old[0]).await, Err(404));
}

/// Before its first apply Helm 4 makes the fields that Helm 3 updated those of an apply, by a JSON patch of managedFields;
/// again, if a controller wrote in between. What is not there yet has none.
async fn own_by_apply(helm: &Helm, object: &Value) {
    while let Ok(found) = helm.get(object).await {
        let mut managers = found["metadata"]["managedFields"].as_array().expect("managers").clone();
        for manager in managers.iter_mut().filter(|m| m["manager"] == "helm" && m["subresource"].is_null()) {
            manager["operation"] = "Apply".into();
        }
        let patch = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": managers},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]},
        ]);
        let path = format!("{}?fieldManager=helm", helm.place(object).1);
        match helm.send(Method::PATCH, &path, "application/json-patch+json", &patch).await {
            Ok(_) => return,
            Err(409) => {}
            Err(code) => panic!("{code}: {patch}"),
        }
    }
}

/// A chart with definitions: they come first, and objects of theirs are patched by merge patch.
async fn helm_installs_definitions_first(mut helm: Helm) {
    helm.define(&chart(OPERATOR_CRDS), Way::Patch).await;
    let objects = chart(OPERATOR);
    for object in &objects {
        helm.create(object).await;
    }
    let database = objects.iter().find(|object| object["kind"] == "Database").expect("a Database");
    assert_eq!(helm.get(database).await.expect("it is there")["spec"]["engine"], "tiny", "defaults hold");
    let changed = helm.patch(database, MERGE, &json!({"spec": {"size": 3}})).await;
    assert_eq!((&changed["spec"]["size"], &changed["metadata"]["generation"]), (&json!(3), &json!(2)));
    let wrong = helm.send(Method::PATCH, &helm.place(database).1, MERGE, &json!({"spec": {"size": 0}})).await;
    assert_eq!(wrong, Err(422));
    helm.uninstall("operator", &objects).await;
    for definition in chart(OPERATOR_CRDS) {
        helm.delete(&definition).await;
    }
}
