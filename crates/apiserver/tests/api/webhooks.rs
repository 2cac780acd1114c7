//! Admission webhooks: real web services of the test's own, over TLS.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use minik8s_auth::pki::{self, Pki, ServingNames};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::cluster::*;

pub const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
pub const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Answers reviews until it is dropped, and remembers what it was asked.
pub struct Webhook {
    address: SocketAddr,
    ca: String,
    asked: Arc<Mutex<Vec<Value>>>,
    serving: JoinHandle<()>,
    _dir: TempDir,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Webhook {
    /// `answer` makes the response, without its uid, of the request.
    pub async fn start(answer: impl Fn(&Value) -> Value + Send + Sync + Clone + 'static) -> Webhook {
        let dir = tempfile::tempdir().unwrap();
        let names = ServingNames {
            host_name: "webhook".to_owned(),
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            extra_names: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            service_address: None,
        };
        let pki = Pki::load_or_create(dir.path(), &names, Timestamp::now()).unwrap();
        let tls = TlsAcceptor::from(Arc::new(pki::server_config(&pki).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = asked.clone();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, answer, asked) = (tls.clone(), answer.clone(), seen.clone());
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(move |request: http::Request<Incoming>| {
                        let (answer, asked) = (answer.clone(), asked.clone());
                        async move {
                            let body = request.into_body().collect().await?.to_bytes();
                            let review: Value = serde_json::from_slice(&body).unwrap();
                            let mut response = answer(&review["request"]);
                            response["uid"] = review["request"]["uid"].clone();
                            asked.lock().unwrap().push(review["request"].clone());
                            let said = json!({
                                "kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response,
                            });
                            Ok::<_, hyper::Error>(http::Response::new(Full::new(bytes::Bytes::from(
                                said.to_string(),
                            ))))
                        }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Webhook { address, ca: pki.ca_pem(), asked, serving, _dir: dir }
    }

    /// One that is asked about ConfigMaps, with these fields besides or instead.
    pub fn configured(&self, name: &str, fields: Value) -> Value {
        let mut webhook = json!({
            "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://{}/review", self.address), "caBundle": STANDARD.encode(&self.ca)},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        });
        for (field, value) in fields.as_object().unwrap() {
            webhook[field] = value.clone();
        }
        json!({"metadata": {"name": name}, "webhooks": [webhook]})
    }

    /// The `caBundle` that its certificate is of.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca)
    }

    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

fn allow() -> Value {
    json!({"allowed": true})
}

pub fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

/// Configurations hold a moment after they are written: until what is tried here, without effect, shows it.
pub async fn in_force(client: &Client, shows: impl Fn(&Answer) -> bool) {
    for _ in 0..3000 {
        let answer = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("probe")).await;
        if shows(&answer) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the webhook is never asked");
}

#[tokio::test]
async fn validating_webhook_refuses_in_its_own_words() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|request| match request["object"]["data"]["bad"].is_null() {
        true => json!({"allowed": true, "warnings": ["think twice"]}),
        false => {
            json!({"allowed": false, "status": {"message": "bad data", "code": 403, "reason": "Forbidden"}})
        }
    })
    .await;
    admin.post(VALIDATING, webhook.configured("judge", json!({}))).await.ok();
    in_force(&admin, |answer| !answer.warnings().is_empty()).await;
    let mut bad = config_map("bad");
    bad["data"] = json!({"bad": "yes"});
    let refused = admin.post(CONFIG_MAPS, bad.clone()).await.refused(403, "Forbidden");
    assert_eq!(refused["message"], "admission webhook \"judge.example.com\" denied the request: bad data");
    admin.get(&format!("{CONFIG_MAPS}/bad")).await.refused(404, "NotFound");
    admin.post(CONFIG_MAPS, config_map("good")).await.ok();
    bad["metadata"]["name"] = "good".into();
    admin.put(&format!("{CONFIG_MAPS}/good"), bad).await.refused(403, "Forbidden");
    let asked = webhook.asked().pop().unwrap();
    assert_eq!((&asked["operation"], &asked["name"]), (&json!("UPDATE"), &json!("good")));
    assert_eq!(asked["oldObject"]["metadata"]["name"], "good");
    assert_eq!((&asked["userInfo"]["username"], &asked["dryRun"]), (&json!("admin"), &json!(false)));
    assert_eq!(asked["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    // What is no ConfigMap is none of its business.
    let before = webhook.asked().len();
    admin.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await.ok();
    assert_eq!(webhook.asked().len(), before);
    let metrics = admin.get("/metrics").await.text_whole();
    let counted = "apiserver_admission_webhook_admission_duration_seconds_count{name=\"judge.example.com\"";
    assert!(metrics.contains(counted), "{metrics}");
    for counted in [
        "apiserver_admission_webhook_request_total{name=\"judge.example.com\",operation=\"CREATE\",code=\"403\",rejected=\"true\",type=\"validating\"} 1",
        "apiserver_admission_webhook_request_total{name=\"judge.example.com\",operation=\"UPDATE\",code=\"403\",rejected=\"true\",type=\"validating\"} 1",
        "apiserver_admission_webhook_rejection_count{name=\"judge.example.com\",operation=\"CREATE\",error_type=\"no_error\",rejection_code=\"403\",type=\"validating\"} 1",
    ] {
        assert!(metrics.contains(counted), "{counted}: {metrics}");
    }
}

#[tokio::test]
async fn deletion_can_be_refused_but_not_of_webhooks_themselves() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|request| match request["operation"] == "DELETE" {
        true => json!({"allowed": false}),
        false => json!({"allowed": true, "warnings": ["seen"]}),
    })
    .await;
    let everything =
        json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]);
    admin.post(VALIDATING, webhook.configured("keeper", json!({"rules": everything}))).await.ok();
    in_force(&admin, |answer| !answer.warnings().is_empty()).await;
    admin.post(CONFIG_MAPS, config_map("kept")).await.ok();
    let uid = admin.get(&format!("{CONFIG_MAPS}/kept")).await.ok()["metadata"]["uid"].clone();
    let options =
        json!({"gracePeriodSeconds": 7, "propagationPolicy": "Foreground", "preconditions": {"uid": uid}});
    let refused = admin.delete_with(&format!("{CONFIG_MAPS}/kept"), options.clone()).await;
    assert_eq!(refused.code, 400, "{}", refused.text());
    assert!(refused.text().contains("denied the request without explanation"), "{}", refused.text());
    // Controllers write too, and it is asked about everything.
    let asked = webhook.asked().into_iter().rfind(|asked| asked["operation"] == "DELETE").unwrap();
    assert_eq!((&asked["object"], &asked["oldObject"]["kind"]), (&Value::Null, &json!("ConfigMap")));
    for (field, wanted) in options.as_object().unwrap() {
        assert_eq!(asked["options"][field], *wanted, "{asked}");
    }
    admin.delete(&format!("{VALIDATING}/keeper")).await.ok();
    assert!(webhook.asked().iter().all(|asked| asked["kind"]["kind"] != "ValidatingWebhookConfiguration"));
}

#[tokio::test]
async fn mutating_webhooks_change_objects_in_order_and_are_asked_again() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let first = Webhook::start(|request| match request["object"]["data"]["second"].is_null() {
        true => patch(json!([{"op": "add", "path": "/data", "value": {"first": "1"}}])),
        false => patch(json!([{"op": "add", "path": "/data/again", "value": "1"}])),
    })
    .await;
    let second = Webhook::start(|request| {
        assert_eq!(request["object"]["data"]["first"], "1");
        patch(json!([{"op": "add", "path": "/data/second", "value": "2"}]))
    })
    .await;
    admin.post(MUTATING, second.configured("b-second", json!({"failurePolicy": "Ignore"}))).await.ok();
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    admin.post(MUTATING, first.configured("a-first", again)).await.ok();
    in_force(&admin, |answer| answer.body["data"]["again"] == "1" && answer.body["data"]["second"] == "2")
        .await;
    let made = admin.post(CONFIG_MAPS, config_map("made")).await.ok();
    assert_eq!(made["data"], json!({"first": "1", "second": "2", "again": "1"}));
    assert_eq!(admin.get(&format!("{CONFIG_MAPS}/made")).await.ok()["data"], made["data"]);
    // Dry runs are told as such.
    let asked = first.asked();
    assert!(
        asked.iter().any(|asked| asked["dryRun"] == true)
            && asked.iter().any(|asked| asked["dryRun"] == false)
    );
}

#[tokio::test]
async fn patch_that_makes_nonsense_stores_nothing() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|_| patch(json!([{"op": "add", "path": "/data", "value": 5}]))).await;
    admin.post(MUTATING, webhook.configured("fool", json!({}))).await.ok();
    in_force(&admin, |answer| answer.code == 500).await;
    let refused = admin.post(CONFIG_MAPS, config_map("m")).await.refused(500, "InternalError");
    assert!(refused["message"].as_str().unwrap().contains("fool.example.com"), "{refused}");
    let metrics = admin.get("/metrics").await.text_whole();
    let counted = "apiserver_admission_webhook_rejection_count{name=\"fool.example.com\",operation=\"CREATE\",error_type=\"apiserver_internal_error\",rejection_code=\"0\",type=\"admit\"}";
    assert!(metrics.contains(counted), "{metrics}");
    admin.get(&format!("{CONFIG_MAPS}/m")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn dead_webhook_is_named_or_ignored_as_its_policy_says() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|_| allow()).await;
    let (dead, slow) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (dead_at, slow_at) = (dead.local_addr().unwrap(), slow.local_addr().unwrap());
    drop(dead);
    let at = |address: SocketAddr| json!({"url": format!("https://{address}/"), "caBundle": STANDARD.encode(&webhook.ca)});
    let ignored = json!({"clientConfig": at(dead_at), "failurePolicy": "Ignore"});
    admin.post(VALIDATING, webhook.configured("ignored", ignored)).await.ok();
    in_force(&admin, |answer| answer.code == 201).await;
    let hanging = json!({"clientConfig": at(slow_at), "timeoutSeconds": 1});
    admin.post(VALIDATING, webhook.configured("hanging", hanging)).await.ok();
    in_force(&admin, |answer| answer.code == 500).await;
    let refused = admin.post(CONFIG_MAPS, config_map("m")).await.refused(500, "InternalError");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("failed calling webhook \"hanging.example.com\""), "{message}");
    assert!(message.contains("context deadline exceeded"), "{message}");
    assert!(
        message.contains("(of validatingwebhookconfiguration hanging: fix its service, set"),
        "{message}"
    );
    let metrics = admin.get("/metrics").await.text_whole();
    for counted in [
        "apiserver_admission_webhook_rejection_count{name=\"hanging.example.com\",operation=\"CREATE\",error_type=\"calling_webhook_error\",rejection_code=\"503\",type=\"validating\"}",
        "apiserver_admission_webhook_fail_open_count{name=\"ignored.example.com\",type=\"validating\"}",
    ] {
        assert!(metrics.contains(counted), "{counted}: {metrics}");
    }
    admin.delete(&format!("{VALIDATING}/hanging")).await.ok();
    let missing = json!({"clientConfig": {"service": {"namespace": "default", "name": "missing"}}});
    admin.post(VALIDATING, webhook.configured("missing", missing)).await.ok();
    in_force(&admin, |answer| answer.text().contains("services \\\"missing\\\" not found")).await;
}

#[tokio::test]
async fn webhook_sees_what_its_selectors_choose() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|_| json!({"allowed": false, "status": {"message": "chosen"}})).await;
    let namespace = json!({"metadata": {"name": "watched", "labels": {"watched": "yes"}}});
    admin.post("/api/v1/namespaces", namespace).await.ok();
    let account = json!({"metadata": {"name": "default"}});
    admin.post("/api/v1/namespaces/watched/serviceaccounts", account).await.ok();
    let selectors = json!({
        "namespaceSelector": {"matchLabels": {"watched": "yes"}},
        "objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
    });
    admin.post(VALIDATING, webhook.configured("chooser", selectors)).await.ok();
    let watched = "/api/v1/namespaces/watched/configmaps";
    for _ in 0..3000 {
        if admin.post(&format!("{watched}?dryRun=All"), json!({"metadata": {"name": "m"}})).await.code == 400
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    admin.post(CONFIG_MAPS, config_map("elsewhere")).await.ok();
    assert_eq!(admin.post(watched, json!({"metadata": {"name": "m"}})).await.code, 400);
    admin.post(watched, json!({"metadata": {"name": "m", "labels": {"skip": "me"}}})).await.ok();
}

#[tokio::test]
async fn match_conditions_choose_requests() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|_| json!({"allowed": false, "status": {"message": "chosen"}})).await;
    let conditions = |expressions: &[&str]| {
        let named = |(index, expression)| json!({"name": format!("c{index}"), "expression": expression});
        json!({"matchConditions": expressions.iter().enumerate().map(named).collect::<Vec<_>>()})
    };
    let wrong = webhook.configured("wrong", conditions(&["object.a ==", "request.name"]));
    for kind in [VALIDATING, MUTATING] {
        let refused = admin.post(kind, wrong.clone()).await.refused(422, "Invalid");
        let fields: Vec<&Value> =
            refused["details"]["causes"].as_array().unwrap().iter().map(|c| &c["field"]).collect();
        let expected = [0, 1].map(|index| json!(format!("webhooks[0].matchConditions[{index}].expression")));
        assert_eq!(fields, [&expected[0], &expected[1]], "{refused}");
    }

    let choosing = conditions(&[
        "object.metadata.name != 'skip-me'",
        "request.operation == 'CREATE'",
        "authorizer.group('').resource('configmaps').namespace(request.namespace).check('delete').allowed()",
    ]);
    admin.post(VALIDATING, webhook.configured("chooser", choosing)).await.ok();
    in_force(&admin, |answer| answer.text().contains("chosen")).await;
    admin.post(CONFIG_MAPS, config_map("skip-me")).await.ok();
    let path = format!("{CONFIG_MAPS}/skip-me");
    admin.patch(MERGE, &path, json!({"data": {"a": "b"}})).await.ok();

    let failing = conditions(&["object.data.missing == 'x'"]);
    admin.post(VALIDATING, webhook.configured("failing", failing)).await.ok();
    let why = "expression 'object.data.missing == 'x'' resulted in error: no such key";
    for _ in 0..3000 {
        if admin.post(&format!("{CONFIG_MAPS}?dryRun=All"), config_map("skip-me")).await.text().contains(why)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("conditions that fail never refuse");
}

/// Upstream: "patching/updating a validating webhook should work", and the same of a mutating one.
#[tokio::test]
async fn webhook_whose_rules_change_is_asked_by_the_new_ones() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|_| json!({"allowed": true, "warnings": ["seen"]})).await;
    let rules = |operation: &str| json!([{"operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    for kind in [VALIDATING, MUTATING] {
        let path = format!("{kind}/changing");
        admin.post(kind, webhook.configured("changing", json!({"rules": rules("CREATE")}))).await.ok();
        in_force(&admin, |answer| !answer.warnings().is_empty()).await;
        let mut updated = admin.get(&path).await.ok();
        updated["webhooks"][0]["rules"] = rules("UPDATE");
        admin.put(&path, updated).await.ok();
        in_force(&admin, |answer| answer.code == 201 && answer.warnings().is_empty()).await;
        let back = json!([{"op": "replace", "path": "/webhooks/0/rules", "value": rules("CREATE")}]);
        admin.patch(JSON_PATCH, &path, back).await.ok();
        in_force(&admin, |answer| !answer.warnings().is_empty()).await;
        admin.delete(&path).await.ok();
        in_force(&admin, |answer| answer.warnings().is_empty()).await;
    }
}

/// Upstream: "should mutate pod and apply defaults after mutation".
#[tokio::test]
async fn what_a_webhook_adds_gets_its_defaults() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|_| {
        let added = json!([{"name": "webhook-added-init-container", "image": "webhook-added-image"}]);
        patch(json!([{"op": "add", "path": "/spec/initContainers", "value": added}]))
    })
    .await;
    let rules =
        json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]);
    admin.post(MUTATING, webhook.configured("adder", json!({"rules": rules}))).await.ok();
    let pods = "/api/v1/namespaces/default/pods?dryRun=All";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for _ in 0..3000 {
        let made = admin.post(pods, pod.clone()).await.ok();
        let added = &made["spec"]["initContainers"][0];
        if added["name"] == "webhook-added-init-container" {
            assert_eq!(added["terminationMessagePolicy"], "File", "{added}");
            assert_eq!(added["terminationMessagePath"], "/dev/termination-log", "{added}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the webhook is never asked");
}

#[tokio::test]
async fn connections_and_evictions_can_be_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let webhook = Webhook::start(|request| match request["object"]["kind"].as_str() {
        Some("PodExecOptions" | "Eviction") => json!({"allowed": false, "status": {"message": "not here"}}),
        _ => json!({"allowed": true, "warnings": ["seen"]}),
    })
    .await;
    let rules = json!([
        {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]},
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/eviction", "configmaps"]},
    ]);
    admin.post(VALIDATING, webhook.configured("guard", json!({"rules": rules}))).await.ok();
    in_force(&admin, |answer| !answer.warnings().is_empty()).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    admin.post(pods, pod).await.ok();
    let refused = admin.post(&format!("{pods}/p/exec?command=sh&command=-c&stdin=true"), json!({})).await;
    assert!(refused.text().contains("denied the request: not here"), "{}", refused.text());
    let asked = webhook.asked().pop().unwrap();
    assert_eq!((&asked["operation"], &asked["subResource"]), (&json!("CONNECT"), &json!("exec")));
    assert_eq!(asked["kind"], json!({"group": "", "version": "v1", "kind": "PodExecOptions"}));
    assert_eq!(
        (&asked["object"]["command"], &asked["object"]["stdin"]),
        (&json!(["sh", "-c"]), &json!(true))
    );
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let refused = admin.post(&format!("{pods}/p/eviction"), eviction).await;
    assert!(refused.text().contains("denied the request: not here"), "{}", refused.text());
    assert_eq!(webhook.asked().pop().unwrap()["kind"]["group"], "policy");
    admin.get(&format!("{pods}/p")).await.ok();
}
