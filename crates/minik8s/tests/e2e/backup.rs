//! `minik8s backup`, `restore` and `store copy` as a person types them, with real servers and a real etcd.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use base64::Engine;
use http::Method;
use serde_json::{Value, json};

use crate::harness::control_plane::{Connection, Server};
use crate::harness::etcd_server::EtcdServer;

fn minik8s(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_minik8s")).args(arguments).output().unwrap()
}

#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let output = minik8s(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What it says on failure.
#[track_caller]
fn fail(arguments: &[&str]) -> String {
    let output = minik8s(arguments);
    assert!(!output.status.success(), "{arguments:?} must fail");
    String::from_utf8(output.stderr).unwrap()
}

async fn make(connection: &mut Connection, name: &str) -> u64 {
    let path = "/api/v1/namespaces/default/configmaps";
    let body = json!({"metadata": {"name": name}, "data": {"name": name}});
    let (code, made) = connection.send(Method::POST, path, "application/json", &body).await.unwrap();
    assert_eq!(code, 201, "{made}");
    version(&made)
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// The names of the test's own objects, and the uid that tells clusters apart.
async fn state(connection: &mut Connection) -> (Vec<String>, Value) {
    let (_, list) = connection.get("/api/v1/namespaces/default/configmaps").await.unwrap();
    let names = list["items"].as_array().unwrap().iter().filter(|item| item["data"]["name"].is_string());
    let names = names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    let (_, system) = connection.get("/api/v1/namespaces/kube-system").await.unwrap();
    (names, system["metadata"]["uid"].clone())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_one_file() {
    let scratch = tempfile::tempdir().unwrap();
    let (old, new) = (scratch.path().join("old"), scratch.path().join("new"));
    std::fs::create_dir(&old).unwrap();
    let file = scratch.path().join("cluster.backup");
    let file = text(&file);

    let mut server = Server::new(&old);
    server.start();
    let credentials = server.ready().await;
    let mut connection = credentials.connect().await.unwrap();
    make(&mut connection, "before").await;
    // The server runs: it is asked.
    let told = succeed(&["backup", file, "--data-dir", text(&old)]);
    assert!(told.contains("entries at revision"), "{told}");
    let mode = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let lost = make(&mut connection, "after").await;
    let refused = fail(&["restore", file, "--data-dir", text(&old), "--force"]);
    assert!(refused.contains("in use"), "{refused}");
    let (_, uid) = state(&mut connection).await;
    server.stop();

    // At rest the store is read, and is what the server said.
    let rest = scratch.path().join("rest.backup");
    succeed(&["backup", text(&rest), "--data-dir", text(&old)]);
    let refused = fail(&["restore", file, "--data-dir", text(&old)]);
    assert!(refused.contains("is not empty") && refused.contains("--force"), "{refused}");

    // Another machine: the same cluster, with the same keys, and no version is given twice.
    succeed(&["restore", file, "--data-dir", text(&new)]);
    let mut restored = Server::new(&new);
    restored.start();
    let theirs = restored.ready().await;
    let mut connection = theirs.connect().await.unwrap();
    assert_eq!(state(&mut connection).await, (vec!["before".to_owned()], uid.clone()));
    assert!(make(&mut connection, "new").await > lost + 1_000_000);
    assert_eq!(
        std::fs::read(old.join("pki/ca.pem")).unwrap(),
        std::fs::read(new.join("pki/ca.pem")).unwrap()
    );
    for name in ["join-token", "pki/service-account.pem"] {
        assert_eq!(std::fs::read(old.join(name)).unwrap(), std::fs::read(new.join(name)).unwrap(), "{name}");
    }
    // The old administrator's certificate is good there.
    let mut old_admin = credentials.at(restored.address()).connect().await.unwrap();
    assert_eq!(state(&mut old_admin).await.1, uid);
    restored.stop();

    // By force, over what is there, which stays beside it.
    succeed(&["restore", text(&rest), "--data-dir", text(&new), "--force"]);
    assert!(new.join("store.redb.before-restore").exists());
    restored.start();
    let mut connection = restored.ready().await.connect().await.unwrap();
    assert_eq!(state(&mut connection).await.0, ["after", "before"]);
    restored.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_file_changes_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("cluster");
    std::fs::create_dir(&dir).unwrap();
    let mut server = Server::new(&dir);
    server.start();
    server.ready().await;
    server.stop();
    let file = scratch.path().join("backup");
    succeed(&["backup", text(&file), "--data-dir", text(&dir)]);
    let good = std::fs::read(&file).unwrap();
    let before = std::fs::read(dir.join("store.redb")).unwrap();
    let bad = scratch.path().join("bad");
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    let cases: [(&[u8], &str); 4] = [
        (&good[..good.len() - 7], "cut short"),
        (&damaged, "damaged"),
        (b"something else", "not a backup"),
        (b"minik8s-backup 7\n", "use the version of minik8s that wrote it"),
    ];
    for (content, expected) in cases {
        std::fs::write(&bad, content).unwrap();
        let empty = scratch.path().join("empty");
        for target in [&dir, &empty] {
            let said = fail(&["restore", text(&bad), "--data-dir", text(target), "--force"]);
            assert!(said.contains(expected) && said.contains(text(&bad)), "{said}");
        }
        assert!(!empty.exists());
    }
    assert_eq!(std::fs::read(dir.join("store.redb")).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_administrator_may_read_the_whole_store() {
    let scratch = tempfile::tempdir().unwrap();
    let tokens = scratch.path().join("tokens.csv");
    std::fs::write(&tokens, "secret-token,ada,1,\n").unwrap();
    let mut server = Server::new(scratch.path());
    server.start_with(&["--token-auth-file", text(&tokens)]);
    let mut admin = server.ready().await.connect().await.unwrap();
    // Everything that RBAC can give.
    let binding = json!({
        "metadata": {"name": "ada"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
        "name": "cluster-admin"}, "subjects": [{"kind": "User", "name": "ada"}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(admin.send(Method::POST, path, "application/json", &binding).await.unwrap().0, 201);
    let mut ada = server.ready().await.without_certificate().connect().await.unwrap().bearing("secret-token");
    let begun = std::time::Instant::now();
    while ada.get("/api/v1/secrets").await.unwrap().0 != 200 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "she may do all else");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let (code, answer) = ada.get("/minik8s/backup").await.unwrap();
    assert_eq!((code, answer["reason"].as_str()), (403, Some("Forbidden")), "{answer}");
    assert_eq!(admin.get("/minik8s/backup").await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_moves_to_etcd_and_back() {
    let etcd = EtcdServer::start().await;
    let scratch = tempfile::tempdir().unwrap();
    let (dir, back) = (scratch.path().join("dir"), scratch.path().join("back"));
    std::fs::create_dir(&dir).unwrap();
    let mut server = Server::new(&dir);
    server.start();
    let mut connection = server.ready().await.connect().await.unwrap();
    let first = make(&mut connection, "in-redb").await;
    let (_, uid) = state(&mut connection).await;
    server.stop();

    let (redb, url) = (format!("redb:{}", text(&dir)), format!("etcd={}", etcd.endpoint()));
    succeed(&["store", "copy", "--from", &redb, "--to", &url]);
    let refused = fail(&["store", "copy", "--from", &redb, "--to", &url]);
    assert!(refused.contains("is not empty"), "{refused}");
    server.start_with(&["--store", &url]);
    let mut connection = server.ready().await.connect().await.unwrap();
    let second = make(&mut connection, "in-etcd").await;
    assert!(second > first);
    // While it runs, too.
    let file = scratch.path().join("backup");
    succeed(&["backup", text(&file), "--store", &url]);
    let third = make(&mut connection, "later").await;
    server.stop();

    let target = format!("redb:{}", text(&back));
    succeed(&["store", "copy", "--from", &url, "--to", &target]);
    let mut server = Server::new(&back);
    server.start();
    let mut connection = server.ready().await.connect().await.unwrap();
    let names = ["in-etcd", "in-redb", "later"].map(str::to_owned).to_vec();
    assert_eq!(state(&mut connection).await, (names, uid.clone()));
    assert!(make(&mut connection, "last").await > third);
    server.stop();

    // And the backup goes back into that etcd.
    succeed(&["restore", text(&file), "--store", &url, "--force"]);
    let mut server = Server::new(&dir);
    server.start_with(&["--store", &url]);
    let mut connection = server.ready().await.connect().await.unwrap();
    assert_eq!(state(&mut connection).await, (vec!["in-etcd".to_owned(), "in-redb".to_owned()], uid));
    assert!(make(&mut connection, "again").await > third);
    server.stop();
}

/// A file of keys: the first one writes.
fn encryption(path: &Path, providers: &[(&str, &str)]) {
    let secret =
        |name: &str| base64::engine::general_purpose::STANDARD.encode(name.repeat(32).split_at(32).0);
    let providers = providers.iter().map(|(kind, key)| match *kind {
        "identity" => json!({"identity": {}}),
        kind => json!({kind: {"keys": [{"name": key, "secret": secret(key)}]}}),
    });
    let entry = json!({"resources": ["secrets"], "providers": providers.collect::<Vec<_>>()});
    let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [entry]});
    std::fs::write(path, file.to_string()).unwrap();
}

/// Whether these words are anywhere in the file.
fn holds(path: &Path, words: &str) -> bool {
    let bytes = std::fs::read(path).unwrap();
    bytes.windows(words.len()).any(|part| part == words.as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_lie_encrypted_on_disk_and_in_backups() {
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    const ONE: &str = "/api/v1/namespaces/default/secrets/one";
    let scratch = tempfile::tempdir().unwrap();
    let (dir, copy) = (scratch.path().join("cluster"), scratch.path().join("copy"));
    std::fs::create_dir(&dir).unwrap();
    let (config, file) = (scratch.path().join("encryption.yaml"), scratch.path().join("cluster.backup"));
    let flags = ["--encryption-provider-config", text(&config)];
    encryption(&config, &[("aesgcm", "first")]);
    let mut server = Server::new(&dir);
    server.start_with(&flags);
    let mut connection = server.ready().await.connect().await.unwrap();
    let secret = json!({"metadata": {"name": "one"}, "stringData": {"word": "open-sesame"}});
    let (code, made) = connection.send(Method::POST, SECRETS, "application/json", &secret).await.unwrap();
    assert_eq!(code, 201, "{made}");
    let words = made["data"]["word"].as_str().unwrap();
    make(&mut connection, "plain-words").await;
    // Another key, while the server runs; an unchanged object that is written again lies there by it.
    encryption(&config, &[("secretbox", "second"), ("aesgcm", "first")]);
    let begun = std::time::Instant::now();
    while !holds(&dir.join("store.redb"), "k8s:enc:secretbox:v1:second:") {
        let (_, found) = connection.get(ONE).await.unwrap();
        let (code, _) = connection.send(Method::PUT, ONE, "application/json", &found).await.unwrap();
        assert_eq!(code, 200);
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "the file is not read again");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    succeed(&["backup", text(&file), "--data-dir", text(&dir)]);
    server.stop();
    for path in [&file, &dir.join("store.redb")] {
        assert!(!holds(path, words) && !holds(path, "PRIVATE KEY"), "{}", path.display());
        assert!(holds(path, "plain-words") && holds(path, "k8s:enc:"), "{}", path.display());
    }

    // Without its keys the cluster does not start, and with them it is whole.
    succeed(&["restore", text(&file), "--data-dir", text(&copy)]);
    let port = ["server", "--no-agent", "--bind", "127.0.0.1", "--port", "0", "--data-dir", text(&copy)];
    let told = fail(&port);
    assert!(told.contains("--encryption-provider-config"), "{told}");
    encryption(&config, &[("aesgcm", "another")]);
    let told = fail(&[&port[..], &flags].concat());
    assert!(told.contains("was encrypted by"), "{told}");
    encryption(&config, &[("identity", ""), ("aesgcm", "first"), ("secretbox", "second")]);
    let mut restored = Server::new(&copy);
    restored.start_with(&flags);
    let mut connection = restored.ready().await.connect().await.unwrap();
    let (_, found) = connection.get(ONE).await.unwrap();
    assert_eq!(found["data"]["word"], words);
    restored.stop();
}
