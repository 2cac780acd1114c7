//! kill -9 of the whole server in the middle of rollouts, scalings and jobs: they end as if nothing had happened.
//!
//! The nodes are simulated by a process of their own, which lives on, as agents do.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::harness::control_plane::{Connection, Server};
use crate::harness::program::Program;

const TIMEOUT: Duration = Duration::from_secs(90);
const APPS: &str = "/apis/apps/v1/namespaces/default";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollouts_scalings_and_jobs_end_as_if_nothing_had_happened() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::new(dir.path());
    server.start();
    let mut api = connect(&mut server).await;
    let nodes =
        Program::simulated_nodes(3, &dir.path().join("admin.kubeconfig"), &dir.path().join("nodes.log"));
    nodes.start();
    let (deployments, sets) = (format!("{APPS}/deployments"), format!("{APPS}/statefulsets"));
    write(&mut api, Method::POST, &deployments, &workload("web", 8)).await;
    write(&mut api, Method::POST, &sets, &workload("db", 4)).await;
    write(&mut api, Method::POST, JOBS, &job(24)).await;

    // The moments differ, and repeat from run to run.
    let steps: [(u64, Option<(String, Value)>); 8] = [
        (30, None),
        (250, Some((format!("{deployments}/web"), template("web", "v2")))),
        (60, None),
        (400, Some((format!("{sets}/db"), template("db", "v2")))),
        (120, None),
        (300, Some((format!("{deployments}/web"), json!({"spec": {"replicas": 12}})))),
        (15, None),
        (180, None),
    ];
    for (pause, change) in steps {
        if let Some((path, patch)) = change {
            write(&mut api, Method::PATCH, &path, &patch).await;
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
        server.crash();
        server.start();
        api = connect(&mut server).await;
    }

    let web = until(&mut api, &format!("{deployments}/web"), |web| complete(web, 12)).await;
    assert_eq!(web["status"]["updatedReplicas"], 12, "{web}");
    until(&mut api, &format!("{sets}/db"), |db| complete(db, 4)).await;
    let job = until(&mut api, &format!("{JOBS}/work"), |job| condition(job, "Complete")).await;
    assert_eq!((&job["status"]["succeeded"], &job["status"]["failed"]), (&json!(24), &Value::Null));
    assert_eq!(
        pods(&mut api, "batch.kubernetes.io%2Fjob-name%3Dwork").await.len(),
        24,
        "none was made twice"
    );
    until(&mut api, &format!("{PODS}?labelSelector=app%3Dweb"), |list| {
        let pods = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        pods.len() == 12 && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "v2")
    })
    .await;
    let names: Vec<_> =
        pods(&mut api, "app%3Ddb").await.iter().map(|pod| pod["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2", "db-3"]);
}

async fn connect(server: &mut Server) -> Connection {
    server.ready().await.connect().await.expect("a connection")
}

async fn write(api: &mut Connection, method: Method, path: &str, body: &Value) {
    let content_type =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let (code, answer) = api.send(method, path, content_type, body).await.expect("an answer");
    assert!(matches!(code, 200 | 201), "{path}: {answer}");
}

async fn pods(api: &mut Connection, selector: &str) -> Vec<Value> {
    let (code, list) = api.get(&format!("{PODS}?labelSelector={selector}")).await.expect("a list");
    assert_eq!(code, 200, "{list}");
    list["items"].as_array().cloned().unwrap_or_default()
}

async fn until(api: &mut Connection, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let (_, seen) = api.get(path).await.expect("an answer");
        if wanted(&seen) {
            return seen;
        }
        assert!(begun.elapsed() < TIMEOUT, "not so after {TIMEOUT:?}: {seen:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The controller has seen the last change, and every replica is ready and of the new template.
fn complete(workload: &Value, replicas: u64) -> bool {
    let status = &workload["status"];
    status["observedGeneration"] == workload["metadata"]["generation"]
        && ["replicas", "readyReplicas", "updatedReplicas"].iter().all(|count| status[count] == replicas)
}

fn condition(object: &Value, name: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == name && c["status"] == "True")
}

fn template(app: &str, image: &str) -> Value {
    let pod = json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}});
    json!({"spec": {"template": pod}})
}

fn workload(app: &str, replicas: u64) -> Value {
    let mut object = template(app, "v1");
    object["metadata"] = json!({"name": app});
    object["spec"]["replicas"] = json!(replicas);
    object["spec"]["selector"] = json!({"matchLabels": {"app": app}});
    if app == "db" {
        object["spec"]["serviceName"] = json!("db");
    }
    object
}

fn job(completions: u64) -> Value {
    json!({
        "metadata": {"name": "work"},
        "spec": {"completions": completions, "parallelism": 4, "template": {
            "metadata": {"annotations": {"minik8s.io/run-seconds": "0"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]},
        }},
    })
}
