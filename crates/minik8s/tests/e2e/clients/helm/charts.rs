//! Charts in the shape of well-known ones, each through the releases of Helm 3 and then of Helm 4: a database, an ingress
//! controller, and an operator that brings its definitions.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::release::{Release, Way, is_same};
use super::{APPLY, Helm, MERGE, STRATEGIC, TIMEOUT, chart, names, started};
use crate::harness::Server;

const STORE_1: &str = include_str!("../charts/store-1.yaml");
const STORE_2: &str = include_str!("../charts/store-2.yaml");
const EDGE_1: &str = include_str!("../charts/edge-1.yaml");
const EDGE_2: &str = include_str!("../charts/edge-2.yaml");
const EDGE_HOOK: &str = include_str!("../charts/edge-hook.yaml");
const ISSUER_1: &str = include_str!("../charts/issuer-1.yaml");
const ISSUER_2: &str = include_str!("../charts/issuer-2.yaml");
const ISSUER_CRDS_1: &str = include_str!("../charts/issuer-crds-1.yaml");
const ISSUER_CRDS_2: &str = include_str!("../charts/issuer-crds-2.yaml");

/// What somebody puts into the webhook when the certificate is made.
const BUNDLE: &str = "Y2VydGlmaWNhdGU=";

#[tokio::test]
async fn helm_upgrades_and_rolls_back_a_database_that_keeps_its_claims() {
    let server = Server::start_with_nodes(2);
    let helm = started(&server).await;
    for number in 0..2 {
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": format!("helm-store-{number}")},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": format!("/srv/store-{number}")}}});
        helm.send(Method::POST, "/api/v1/persistentvolumes", "", &volume).await.expect("a volume");
    }
    let mut uids = Vec::new();
    for way in [Way::Patch, Way::Apply] {
        let (old, new) = (chart(STORE_1), chart(STORE_2));
        let release = Release { helm: &helm, name: "store", old, new, hook: None, way };
        release.install().await;
        release.upgrade().await;
        let claims = [claim(&helm, 0).await, claim(&helm, 1).await];
        release.roll_back().await;
        let secret = release.found("Secret").await;
        assert_eq!(
            secret["data"],
            json!({"admin-password": "Y29ycmVjdA=="}),
            "the new key goes, the old stays"
        );
        release.uninstall().await;
        // No Helm takes claims away, nor does the StatefulSet: they wait for the next release.
        assert_eq!([claim(&helm, 0).await, claim(&helm, 1).await], claims);
        uids.push(claims);
    }
    assert_eq!(uids[0], uids[1], "the second release has the data of the first one");
}

/// The UID of a claim, once it has its volume.
async fn claim(helm: &Helm, number: usize) -> String {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": format!("data-store-{number}")}});
    let is_bound = |found: Option<&Value>| found.is_some_and(|found| found["status"]["phase"] == "Bound");
    let found = helm.until(&claim, "bound", is_bound).await.expect("a claim");
    found["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

#[tokio::test]
async fn helm_upgrades_and_rolls_back_an_ingress_controller_with_a_webhook() {
    let server = Server::start_with_nodes(2);
    let helm = started(&server).await;
    for way in [Way::Patch, Way::Apply] {
        let (old, new) = (chart(EDGE_1), chart(EDGE_2));
        let release = Release { helm: &helm, name: "edge", old, new, hook: Some(EDGE_HOOK), way };
        release.install().await;
        let configuration = release.object("ValidatingWebhookConfiguration");
        let bundle = json!({"webhooks": [
            {"name": "ingresses.edge.example.com", "clientConfig": {"caBundle": BUNDLE}}]});
        helm.meddle(configuration, STRATEGIC, &bundle).await;
        release.upgrade().await;
        check_bundle(&release).await;
        release.roll_back().await;
        check_bundle(&release).await;
        // Nobody answers for the webhook, which may be ignored.
        let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "site"},
            "spec": {"ingressClassName": "edge", "defaultBackend": {"service": {"name": "site", "port": {"number": 80}}}}});
        helm.create(&ingress).await;
        helm.delete(&ingress).await;
        release.uninstall().await;
    }
}

async fn check_bundle(release: &Release<'_>) {
    let configuration = release.found("ValidatingWebhookConfiguration").await;
    assert_eq!(configuration["webhooks"][0]["clientConfig"]["caBundle"], BUNDLE, "{configuration}");
}

#[tokio::test]
async fn helm_upgrades_and_rolls_back_an_operator_with_its_definitions() {
    let server = Server::start_with_nodes(2);
    let mut helm = started(&server).await;
    for way in [Way::Patch, Way::Apply] {
        let definitions = chart(ISSUER_CRDS_1);
        helm.define(&definitions, way).await;
        let (old, new) = (chart(ISSUER_1), chart(ISSUER_2));
        let release = Release { helm: &helm, name: "issuer", old, new, hook: None, way };
        release.install().await;
        let is_scaled = |found: Option<&Value>| found.is_some_and(|found| replicas(found) >= 2);
        helm.until(release.object("Deployment"), "scaled", is_scaled).await;
        redefine(&helm, release.object("Ticket"), way).await;
        release.upgrade().await;
        assert!(replicas(&release.found("Deployment").await) >= 2, "the autoscaler's field stays");
        let ticket = release.found("Ticket").await;
        assert_eq!(names(&ticket["spec"]["hosts"], "name"), ["www", "api"]);
        release.roll_back().await;
        assert!(replicas(&release.found("Deployment").await) >= 2, "the autoscaler's field stays");
        let ticket = release.found("Ticket").await;
        assert!(ticket["spec"]["renewal"].is_null(), "{ticket}");
        if way == Way::Apply {
            check_shared_list(&release).await;
        }
        release.uninstall().await;
        for definition in &definitions {
            helm.delete(definition).await;
        }
    }
}

fn replicas(deployment: &Value) -> i64 {
    deployment["spec"]["replicas"].as_i64().unwrap_or_default()
}

/// The definitions of the next version come before its objects; from then on the server knows the new field.
async fn redefine(helm: &Helm, ticket: &Value, way: Way) {
    let (old, new) = (chart(ISSUER_CRDS_1), chart(ISSUER_CRDS_2));
    match way {
        Way::Patch => super::change(helm, &old, &new).await,
        Way::Apply => {
            for definition in &new {
                helm.apply(definition, false).await.unwrap_or_else(|code| panic!("{code}: {definition}"));
            }
        }
    }
    let path = format!("{}?dryRun=All&fieldManager=somebody&fieldValidation=Strict", helm.place(ticket).1);
    let field = json!({"spec": {"renewal": {"before": "24h"}}});
    let begun = Instant::now();
    while let Err(code) = helm.send(Method::PATCH, &path, MERGE, &field).await {
        assert!(begun.elapsed() < TIMEOUT, "the new schema is never served: {code}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An element that somebody else applied is not Helm's to take away; its own are.
async fn check_shared_list(release: &Release<'_>) {
    let (helm, ticket) = (release.helm, release.object("Ticket"));
    let theirs = json!({"apiVersion": ticket["apiVersion"], "kind": "Ticket", "metadata": {"name": "front"},
        "spec": {"hosts": [{"name": "mail", "port": 25}]}});
    let path = format!("{}?fieldManager=somebody", helm.place(ticket).1);
    helm.send(Method::PATCH, &path, APPLY, &theirs).await.expect("an apply");
    let next = release.new.iter().find(|object| is_same(object, ticket)).expect("the next version");
    for (object, wanted) in [(next, vec!["api", "mail", "www"]), (ticket, vec!["mail", "www"])] {
        helm.apply(object, false).await.unwrap_or_else(|code| panic!("{code}: {object}"));
        let mut hosts = names(&release.found("Ticket").await["spec"]["hosts"], "name");
        hosts.sort();
        assert_eq!(hosts, wanted);
    }
}
