//! Other people's clients, as they are: kube-rs and the Python `kubernetes` package, over TLS; and Helm, by its requests.

mod helm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;

use crate::harness::Server;

async fn client(server: &Server) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("the kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a configuration");
    Client::try_from(config).expect("a client")
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([("app".to_owned(), "x".to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().and_then(|data| data.get("key")).map_or("", String::as_str)
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn kube_rs_reads_and_writes() {
    let server = Server::start();
    let objects: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    let created = objects.create(&PostParams::default(), &config_map("one", "1")).await.expect("create");
    assert!(created.uid().is_some() && created.resource_version().is_some());
    let again = objects.create(&PostParams::default(), &config_map("one", "1")).await;
    assert_eq!(code(again.expect_err("it is there")), 409);

    let patch = Patch::Merge(json!({"data": {"key": "2"}}));
    let merged = objects.patch("one", &PatchParams::default(), &patch).await.expect("merge patch");
    assert_eq!(value(&merged), "2");
    let stale = objects.replace("one", &PostParams::default(), &created).await;
    assert_eq!(code(stale.expect_err("it has changed")), 409);
    let mut fresh = merged;
    fresh.data = config_map("one", "3").data;
    assert_eq!(value(&objects.replace("one", &PostParams::default(), &fresh).await.expect("replace")), "3");

    let apply = |value: &str| {
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"key": value}}),
        )
    };
    let conflict = objects.patch("one", &PatchParams::apply("test"), &apply("4")).await;
    assert_eq!(code(conflict.expect_err("another one owns the field")), 409);
    let applied =
        objects.patch("one", &PatchParams::apply("test").force(), &apply("4")).await.expect("apply");
    assert_eq!(value(&applied), "4");

    for name in ["two", "three"] {
        objects.create(&PostParams::default(), &config_map(name, "x")).await.expect("create");
    }
    let page = objects.list(&ListParams::default().labels("app=x").limit(2)).await.expect("list");
    assert_eq!(page.items.len(), 2);
    let token = page.metadata.continue_.expect("there is more");
    let rest = objects
        .list(&ListParams::default().labels("app=x").limit(2).continue_token(&token))
        .await
        .expect("list");
    assert_eq!(rest.items.len(), 1);

    objects.delete("two", &DeleteParams::default()).await.expect("delete");
    assert!(objects.get_opt("two").await.expect("get").is_none());
    objects
        .delete_collection(&DeleteParams::default(), &ListParams::default().labels("app=x"))
        .await
        .expect("delete");
    assert!(objects.list(&ListParams::default().labels("app=x")).await.expect("list").items.is_empty());
}

#[tokio::test]
async fn kube_rs_watches() {
    let server = Server::start();
    let objects: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    let start = objects
        .list(&ListParams::default())
        .await
        .expect("list")
        .metadata
        .resource_version
        .expect("a version");
    objects.create(&PostParams::default(), &config_map("one", "1")).await.expect("create");
    let patch = Patch::Merge(json!({"data": {"key": "2"}}));
    objects.patch("one", &PatchParams::default(), &patch).await.expect("patch");
    objects.delete("one", &DeleteParams::default()).await.expect("delete");

    let watch =
        objects.watch(&WatchParams::default().labels("app=x").timeout(20), &start).await.expect("watch");
    let seen: Vec<String> = watch
        .take(3)
        .map_ok(|event| match event {
            WatchEvent::Added(object) => format!("added {}", value(&object)),
            WatchEvent::Modified(object) => format!("modified {}", value(&object)),
            WatchEvent::Deleted(object) => format!("deleted {}", value(&object)),
            other => format!("{other:?}"),
        })
        .try_collect()
        .await
        .expect("events");
    assert_eq!(seen, ["added 1", "modified 2", "deleted 2"]);
}

/// A cache fed by a streaming list follows every change.
#[tokio::test]
async fn kube_rs_reflects() {
    let server = Server::start();
    let objects: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    objects.create(&PostParams::default(), &config_map("before", "1")).await.expect("create");
    for streaming in [true, false] {
        let config = watcher::Config::default().labels("app=x");
        let config = if streaming { config.streaming_lists() } else { config };
        let (cache, writer) = reflector::store();
        let changes = reflector(writer, watcher(objects.clone(), config)).default_backoff().applied_objects();
        let following = tokio::spawn(changes.for_each(|_| async {}));
        cache.wait_until_ready().await.expect("the first list");
        assert_eq!(cache.state().len(), 1, "streaming: {streaming}");
        objects.create(&PostParams::default(), &config_map("after", "1")).await.expect("create");
        until(|| cache.state().len() == 2).await;
        objects.delete("after", &DeleteParams::default()).await.expect("delete");
        until(|| cache.state().len() == 1).await;
        following.abort();
    }
}

async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the cache follows");
}

#[test]
fn python_package() {
    let python = python_with_kubernetes();
    let server = Server::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/clients/python.py");
    let output = Command::new(python).arg(script).arg(server.kubeconfig()).output().expect("python starts");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("all good"), "{said}");
}

/// A Python environment below the target directory, made once.
fn python_with_kubernetes() -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-kubernetes");
    let python = home.join("bin/python");
    let works = |python: &Path| {
        Command::new(python)
            .args(["-c", "import kubernetes"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if works(&python) {
        return python;
    }
    let run = |program: &Path, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        let output =
            output.unwrap_or_else(|error| panic!("{}: {error}: run scripts/setup", program.display()));
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{} {args:?}: {said}\nOn Debian: apt-get install python3-venv, or run scripts/setup",
            program.display()
        );
    };
    run(Path::new("python3"), &["-m", "venv", "--clear", &home.to_string_lossy()]);
    run(&python, &["-m", "pip", "install", "--quiet", "kubernetes"]);
    assert!(works(&python), "the package `kubernetes` is installed but cannot be imported");
    python
}
