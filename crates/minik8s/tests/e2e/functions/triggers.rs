//! Triggers on a real cluster: each source, both targets, what is refused, and what happens once only.

use std::process::Command;

use serde_json::{Value, json};

use super::site::{Site, eventually};
use crate::harness::cluster::{Cluster, block_on};

const NOTE: &str = "
def main(event):
    if event.get('type') == 'boom':
        raise ValueError('boom')
    return event
";

const WORKFLOW: &str = r#"{"StartAt": "Keep", "States": {"Keep": {"Type": "Pass", "End": true}}}"#;

#[test]
fn triggers_fire_for_all_that_happens() {
    Cluster::builder().run(|cluster| {
        let site = Site::new(&cluster, "shop");
        let note = site.file("note.py", NOTE);
        let definition = site.file("keep.json", WORKFLOW);
        site.kubectl(&["workflow", "create", "keep", "-f", &definition]);
        site.trigger(&["create", "schedule", "minutely", "--cron", "* * * * *", "--workflow", "keep"]);
        site.run(&["create", "note", "--from", &note, "--concurrency", "4"]);
        webhook(&site);
        cloud_events(&site);
        dead_letter(&site);
        objects(&site);
        cluster.crash_server();
        block_on(cluster.restart_server());
        objects_after_a_restart(&site);
        files(&site);
        eventually("the schedule started a run", || {
            runs(&site).iter().any(|run| run["status"]["output"]["type"] == "io.minik8s.schedule")
        });
        fired_by_hand(&site);
        let listed = site.trigger(&["list"]);
        assert!(listed.contains("workflow/keep") && listed.contains("object ConfigMap"), "{listed}");
        let told = site.trigger(&["describe", "minutely"]);
        assert!(told.lines().any(|line| line.starts_with("Next:") && line.contains(" 20")), "{told}");
    });
}

/// A schedule that is fired by hand counts it, and fires at its own time all the same.
fn fired_by_hand(site: &Site) {
    let target = ["--function", "note"];
    site.trigger(&[&["create", "schedule", "yearly", "--cron", "0 0 1 1 *"], &target[..]].concat());
    eventually("its next time is known", || site.get("trigger/yearly")["status"]["nextFire"].is_string());
    let next = site.get("trigger/yearly")["status"]["nextFire"].clone();
    for _ in 0..2 {
        site.trigger(&["fire", "yearly", "-d", r#"{"by": "me"}"#]);
    }
    eventually("both are counted", || fired(site, "yearly") == 2);
    let status = site.get("trigger/yearly")["status"].clone();
    assert_eq!((&status["nextFire"], &status["lastFired"]), (&next, &Value::Null));
}

/// Results of all calls that have ended well.
fn results(site: &Site) -> Vec<Value> {
    let all = site.get("invocations");
    let ended =
        all["items"].as_array().into_iter().flatten().filter(|one| one["status"]["phase"] == "Succeeded");
    ended.filter_map(|one| serde_json::from_str(one["status"]["result"].as_str()?).ok()).collect()
}

fn runs(site: &Site) -> Vec<Value> {
    site.get("workflowruns")["items"].as_array().cloned().unwrap_or_default()
}

fn fired(site: &Site, trigger: &str) -> i64 {
    site.get(&format!("trigger/{trigger}"))["status"]["fired"].as_i64().unwrap_or(0)
}

fn webhook(site: &Site) {
    site.kubectl(&["create", "secret", "generic", "hook", "--from-literal=key=s3cret"]);
    let told = site.trigger(&["create", "webhook", "github", "--secret", "hook", "--function", "note"]);
    assert!(told.contains("/fn/shop/-/hooks/github"), "{told}");
    let (path, body) = ("/fn/shop/-/hooks/github", r#"{"zen": "simple"}"#);
    let json = ("content-type", "application/json");
    let send = |path: &str, signature: &str| {
        let headers = [
            json,
            ("x-hub-signature-256", signature),
            ("x-github-event", "ping"),
            ("x-github-delivery", "d-1"),
        ];
        site.post("x", path, &headers, body)
    };
    let signed = signature("s3cret", body);
    let none = site.post("x", path, &[json], body);
    assert_eq!(none.status, 401, "{none:?}");
    assert_eq!(send(path, &signature("guess", body)).status, 401);
    let nobody = send("/fn/shop/-/hooks/nobody", &signed);
    assert_eq!((nobody.status, &nobody.json["message"]), (401, &none.json["message"]), "nothing is learned");
    // The minute's trigger is no webhook, whatever is signed.
    assert_eq!(send("/fn/shop/-/hooks/minutely", &signed).status, 401);
    // What asks to be somebody else is asked as the node, and as the node alone.
    let posing = [json, ("impersonate-user", "system:admin"), ("impersonate-group", "system:masters")];
    assert_eq!(site.post("x", path, &posing, body).status, 401);
    for _ in 0..2 {
        let answer = send(path, &signed);
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    eventually("the webhook's call", || {
        results(site).iter().any(|one| one["data"]["zen"] == "simple" && one["subject"] == "ping")
    });
    let calls = results(site).iter().filter(|one| one["data"]["zen"] == "simple").count();
    assert_eq!(calls, 1, "one delivery, told twice");
    site.trigger(&["fire", "github", "-d", r#"{"by": "hand"}"#]);
    eventually("the call by hand", || results(site).iter().any(|one| one["data"]["by"] == "hand"));
    assert_eq!(site.http("x", "/fn/shop/-/nothing", "{}").status, 404);
}

fn cloud_events(site: &Site) {
    site.trigger(&[
        "create",
        "cloudevents",
        "orders",
        "--type",
        "com.shop.*",
        "--workflow",
        "keep",
        "--input",
        r#"{"total": "{% $event.data.total %}"}"#,
    ]);
    site.trigger(&["create", "cloudevents", "all", "--function", "note", "--filter", "source=/till/*"]);
    let path = "/fn/shop/-/events";
    let event = |id: &str, total: i64| json!({"specversion": "1.0", "id": id, "source": "/till/1", "type": "com.shop.order", "data": {"total": total}});
    let structured = [("content-type", "application/cloudevents+json")];
    let batch = [("content-type", "application/cloudevents-batch+json")];
    let binary = [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "b"),
        ("ce-source", "/web"),
        ("ce-type", "com.shop.order"),
    ];
    assert_eq!(site.post("x", path, &structured, &event("a", 7).to_string()).json, json!({"fired": 2}));
    assert_eq!(site.post("x", path, &structured, &event("a", 7).to_string()).status, 202, "again");
    assert_eq!(site.post("x", path, &binary, r#"{"total": 8}"#).json, json!({"fired": 1}));
    let many = json!([event("c", 9), event("d", 10)]).to_string();
    assert_eq!(site.post("x", path, &batch, &many).json, json!({"fired": 4}));
    let bad = site.post("x", path, &structured, r#"{"specversion": "1.0", "id": "1"}"#);
    assert!(bad.status == 400 && bad.json["message"].to_string().contains("source"), "{bad:?}");
    assert_eq!(
        site.post("x", "/fn/none/-/events", &structured, &event("a", 7).to_string()).json,
        json!({"fired": 0})
    );
    let large =
        json!({"specversion": "1.0", "id": "l", "source": "/", "type": "x", "data": "x".repeat(250 << 10)})
            .to_string();
    assert_eq!(site.post("x", path, &structured, &large).status, 413);
    eventually("a run for each order", || {
        let mut totals: Vec<i64> =
            runs(site).iter().filter_map(|run| run["status"]["output"]["total"].as_i64()).collect();
        totals.sort_unstable();
        totals == [7, 8, 9, 10]
    });
    eventually("a call for each event of the tills", || {
        results(site).iter().filter(|one| one["source"] == "/till/1").count() == 3
    });
    eventually("they are counted", || fired(site, "orders") >= 4);
}

fn dead_letter(site: &Site) {
    site.apply(
        "
apiVersion: minik8s.io/v1
kind: Trigger
metadata: {name: fragile}
spec:
  source: {cloudEvents: {types: [boom]}}
  target: {function: note}
  retry: {attempts: 2, backoffSeconds: 1}
  deadLetter: note
",
    );
    let event = json!({"specversion": "1.0", "id": "1", "source": "/x", "type": "boom"}).to_string();
    let answer =
        site.post("x", "/fn/shop/-/events", &[("content-type", "application/cloudevents+json")], &event);
    assert_eq!(answer.json, json!({"fired": 1}), "{answer:?}");
    eventually("the dead letter", || {
        results(site).iter().any(|one| one["phase"] == "Failed" && one["attempts"] == 2 && one["code"] == 500)
    });
    eventually("the failure is counted", || site.get("trigger/fragile")["status"]["failed"] == 1);
}

/// Only what the service account may watch is told; once it may, from then on.
fn objects(site: &Site) {
    site.trigger(&[
        "create",
        "object",
        "maps",
        "--kind",
        "ConfigMap",
        "-l",
        "app=shop",
        "--event",
        "Added",
        "--event",
        "Deleted",
        "--function",
        "note",
    ]);
    eventually("it is refused", || {
        site.get("trigger/maps")["status"]["conditions"][0]["message"]
            .to_string()
            .contains("may not watch configmaps")
    });
    site.kubectl(&["create", "role", "maps", "--verb=watch", "--resource=configmaps"]);
    site.kubectl(&["create", "rolebinding", "maps", "--role=maps", "--serviceaccount=shop:default"]);
    eventually("it watches", || site.get("trigger/maps")["status"]["conditions"][0]["status"] == "True");
    site.kubectl(&["create", "configmap", "plain", "--from-literal=a=1"]);
    map(site, "first");
    eventually("the object's call", || {
        results(site).iter().any(|one| one["type"] == "io.minik8s.object.added" && one["subject"] == "first")
    });
    assert!(results(site).iter().all(|one| one["subject"] != "plain"), "it has no such label");
}

fn objects_after_a_restart(site: &Site) {
    map(site, "second");
    site.kubectl(&["delete", "configmap", "first"]);
    eventually("both changes are told", || {
        let all = results(site);
        let told = |kind: &str, name: &str| {
            all.iter().filter(|one| one["type"] == kind && one["subject"] == name).count()
        };
        told("io.minik8s.object.added", "second") == 1 && told("io.minik8s.object.deleted", "first") == 1
    });
    let again = results(site)
        .iter()
        .filter(|one| one["type"] == "io.minik8s.object.added" && one["subject"] == "first")
        .count();
    assert_eq!(again, 1, "a new server does not tell it again");
}

fn map(site: &Site, name: &str) {
    site.apply(&format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, labels: {{app: shop}}}}, data: {{a: '1'}}}}"));
}

fn files(site: &Site) {
    site.apply(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: inbox}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  containers:
  - {name: c, image: 'minik8s.io/busybox:1', command: [sleep, '3600'], volumeMounts: [{name: v, mountPath: /data}]}
  volumes: [{name: v, persistentVolumeClaim: {claimName: inbox}}]
",
    );
    site.kubectl(&["wait", "pod/writer", "--for=condition=Ready", "--timeout=120s"]);
    site.kubectl(&["exec", "writer", "--", "mkdir", "-m", "777", "/data/in"]);
    site.trigger(&[
        "create",
        "file",
        "photos",
        "--claim",
        "inbox",
        "--path",
        "in",
        "--pattern",
        "*.jpg",
        "--function",
        "note",
    ]);
    eventually("the files are looked at", || {
        site.get("trigger/photos")["status"]["conditions"][0]["status"] == "True"
    });
    let shell = |line: &str| site.kubectl(&["exec", "writer", "--", "sh", "-c", line]);
    let told = |kind: &str, path: &str| {
        let all = results(site);
        all.iter()
            .filter(|one| one["type"] == format!("io.minik8s.file.{kind}") && one["data"]["path"] == path)
            .count()
    };
    shell("echo one > /data/in/a.jpg; echo two > /data/in/b.txt; mkdir /data/in/deep");
    eventually("a file is told", || told("created", "in/a.jpg") == 1);
    shell("echo more >> /data/in/a.jpg; echo three > /data/in/deep/c.jpg");
    eventually("a change is told", || {
        told("modified", "in/a.jpg") == 1 && told("created", "in/deep/c.jpg") == 1
    });
    shell("rm /data/in/a.jpg; mv /data/in/deep /data/in/moved");
    eventually("removals are told", || {
        told("removed", "in/a.jpg") == 1
            && told("removed", "in/deep/c.jpg") == 1
            && told("created", "in/moved/c.jpg") == 1
    });
    assert_eq!(told("created", "in/b.txt"), 0, "its name does not fit");
}

/// As senders of webhooks make it.
fn signature(key: &str, body: &str) -> String {
    let program =
        "import hmac,sys;print(hmac.new(sys.argv[1].encode(),sys.argv[2].encode(),'sha256').hexdigest())";
    let output = Command::new("python3").args(["-c", program, key, body]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    format!("sha256={}", String::from_utf8(output.stdout).unwrap().trim())
}
