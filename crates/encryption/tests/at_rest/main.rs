//! A store whose values lie encrypted in redb or etcd: what is read, watched and lies there, while keys come and go.

#![allow(clippy::unwrap_used)]

#[path = "../../../store/tests/etcd_server/mod.rs"]
#[allow(dead_code)]
mod etcd_server;
mod plugin;

use std::sync::Arc;

use minik8s_encryption::{EncryptedStore, Rules, refuse_encrypted};
use minik8s_store::{
    Change, Commit, Condition, Contents, EtcdStore, Op, Options, Outcome, Range, RedbStore, Result, Store,
    WatchItem,
};
use tempfile::TempDir;

use crate::etcd_server::EtcdServer;
use crate::plugin::Plugin;

const SECRET: &str = "/registry/core/secrets/default/a";
const MAP: &str = "/registry/core/configmaps/default/a";
const PLAIN: &str = "{\"kind\":\"Secret\",\"data\":\"the words that nobody must read\"}";

fn file(providers: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [secrets]\n  providers: [{providers}]\n"
    )
}

/// A provider with keys; the secret of each is its name, again and again.
fn keys(kind: &str, names: &[&str]) -> String {
    use base64::Engine;
    let secret =
        |name: &str| base64::engine::general_purpose::STANDARD.encode(name.repeat(32).split_at(32).0);
    let keys = names.iter().map(|name| format!("{{name: {name}, secret: {}}}", secret(name)));
    format!("{{{kind}: {{keys: [{}]}}}}", keys.collect::<Vec<_>>().join(", "))
}

async fn rules(providers: &[&str]) -> Rules {
    Rules::of(&file(&providers.join(", "))).await.unwrap()
}

async fn put(store: &dyn Store, key: &str, value: &str) {
    let op = Op::Put { key: key.to_owned(), value: value.to_owned().into() };
    let outcome = store.commit(Commit { conditions: Vec::new(), ops: vec![op] }).await.unwrap();
    assert!(matches!(outcome, Outcome::Committed(_)));
}

async fn get(store: &dyn Store, key: &str) -> Result<String> {
    let value = store.get(key).await?.unwrap().value;
    Ok(String::from_utf8_lossy(&value).into_owned())
}

struct World {
    raw: Arc<RedbStore>,
    store: Arc<EncryptedStore>,
    dir: TempDir,
}

async fn world(providers: &[&str]) -> World {
    let dir = tempfile::tempdir().unwrap();
    let raw = RedbStore::open(dir.path().join("store"), Options::default()).unwrap();
    let store = EncryptedStore::open(raw.clone(), rules(providers).await).await.unwrap();
    World { raw, store, dir }
}

#[tokio::test]
async fn every_cipher_lies_there_as_upstreams_and_reads_back() {
    for kind in ["aesgcm", "aescbc", "secretbox"] {
        let World { raw, store, .. } = world(&[&keys(kind, &["one"])]).await;
        put(&*store, SECRET, PLAIN).await;
        put(&*store, MAP, PLAIN).await;
        let lies = get(&*raw, SECRET).await.unwrap();
        assert!(lies.starts_with(&format!("k8s:enc:{kind}:v1:one:")), "{lies}");
        assert!(!lies.contains("nobody"), "{lies}");
        assert_eq!(get(&*raw, MAP).await.unwrap(), PLAIN, "others are not encrypted");
        for key in [SECRET, MAP] {
            assert_eq!(get(&*store, key).await.unwrap(), PLAIN);
        }
        let page = store.range(Range { prefix: "/registry/".to_owned(), ..Range::default() }).await.unwrap();
        assert!(page.entries.iter().all(|entry| entry.value == PLAIN), "{kind}");
        // The backup holds what lies there.
        let contents = Contents::read(&*store.at_rest().unwrap()).await.unwrap();
        assert!(contents.entries.iter().any(|(key, value)| key == SECRET && value.starts_with(b"k8s:enc:")));
    }
}

#[tokio::test]
async fn keys_are_exchanged_by_writing_again() {
    let (old, new) = (keys("aesgcm", &["old"]), keys("secretbox", &["new"]));
    let World { raw, store, .. } = world(&["{identity: {}}"]).await;
    put(&*store, SECRET, PLAIN).await;
    assert_eq!(get(&*raw, SECRET).await.unwrap(), PLAIN);
    for (providers, prefix) in [
        (vec![old.as_str(), "{identity: {}}"], "k8s:enc:aesgcm:v1:old:"),
        (vec![&new, &old], "k8s:enc:secretbox:v1:new:"),
        (vec!["{identity: {}}", &new], "{"),
    ] {
        store.set_rules(rules(&providers).await);
        assert_eq!(get(&*store, SECRET).await.unwrap(), PLAIN, "the key before can be read");
        assert!(store.is_stale(SECRET).await.unwrap());
        put(&*store, SECRET, PLAIN).await;
        assert!(get(&*raw, SECRET).await.unwrap().starts_with(prefix), "{prefix}");
        assert!(!store.is_stale(SECRET).await.unwrap());
    }
}

#[tokio::test]
async fn own_keys_of_the_cluster_follow_the_rules_for_secrets() {
    const IDENTITY: &str = "/minik8s/identity";
    let World { raw, store, .. } = world(&["{identity: {}}"]).await;
    put(&*store, IDENTITY, PLAIN).await;
    let (one, two) = (keys("aesgcm", &["one"]), keys("aesgcm", &["two"]));
    // As at a start, and as after a change of the file.
    let store = EncryptedStore::open(raw.clone(), rules(&[&one, "{identity: {}}"]).await).await.unwrap();
    assert!(get(&*raw, IDENTITY).await.unwrap().starts_with("k8s:enc:aesgcm:v1:one:"));
    store.set_rules(rules(&[&two, &one]).await);
    store.renew_identity().await.unwrap();
    assert!(get(&*raw, IDENTITY).await.unwrap().starts_with("k8s:enc:aesgcm:v1:two:"));
    let told = EncryptedStore::open(raw, rules(&[&one]).await).await.err().unwrap().to_string();
    assert!(told.contains("/minik8s/identity was encrypted by aesgcm \"two\""), "{told}");
}

#[tokio::test]
async fn missing_or_wrong_key_is_told_and_loses_nothing() {
    let World { raw, store, .. } = world(&[&keys("aesgcm", &["one"])]).await;
    put(&*store, SECRET, PLAIN).await;
    let check = async |providers: &[&str], expected: &str| {
        store.set_rules(rules(providers).await);
        let range = Range { prefix: "/registry/core/".to_owned(), ..Range::default() };
        for told in [get(&*store, SECRET).await.unwrap_err(), store.range(range).await.unwrap_err()] {
            let told = told.to_string();
            assert!(told.contains(SECRET) && told.contains(expected), "{told}");
        }
    };
    check(&[&keys("aesgcm", &["two"])], "aesgcm \"one\", which the encryption configuration does not have")
        .await;
    check(&["{identity: {}}"], "put it back as a further provider").await;
    let other = "{aesgcm: {keys: [{name: one, secret: AAAAAAAAAAAAAAAAAAAAAA==}]}}";
    check(&[other], "cannot be decrypted: its key is not that one").await;
    // A value at another key is not what was written there.
    store.set_rules(rules(&[&keys("aesgcm", &["one"])]).await);
    let moved = raw.get(SECRET).await.unwrap().unwrap().value;
    let op = Op::Put { key: "/registry/core/secrets/default/b".to_owned(), value: moved };
    raw.commit(Commit { conditions: Vec::new(), ops: vec![op] }).await.unwrap();
    let told = get(&*store, "/registry/core/secrets/default/b").await.unwrap_err().to_string();
    assert!(told.contains("damaged or moved"), "{told}");
    assert_eq!(get(&*store, SECRET).await.unwrap(), PLAIN);
    // In the clear, where that is not allowed.
    put(&*raw, SECRET, PLAIN).await;
    let told = get(&*store, SECRET).await.unwrap_err().to_string();
    assert!(told.contains("is not encrypted") && told.contains("identity: {}"), "{told}");
}

#[tokio::test]
async fn watch_and_conflict_tell_plain_values() {
    let World { store, .. } = world(&[&keys("aesgcm", &["one"])]).await;
    let start = store.revision().await.unwrap();
    let mut watch = store.watch("/registry/", start).await.unwrap();
    put(&*store, SECRET, PLAIN).await;
    put(&*store, MAP, "{}").await;
    put(&*store, SECRET, "{}").await;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        if let WatchItem::Event(event) = watch.next().await.unwrap().unwrap() {
            let Change::Put(value) = &event.change else { panic!("{event:?}") };
            let previous = event.previous.as_ref().map(|entry| entry.value.clone());
            seen.push((event.key.to_string(), value.clone(), previous));
        }
    }
    let expected = [(SECRET, PLAIN, None), (MAP, "{}", None), (SECRET, "{}", Some(PLAIN))];
    let expected =
        expected.map(|(key, value, before)| (key.to_owned(), value.into(), before.map(Into::into)));
    assert_eq!(seen, expected);
    // A past revision, and history for a watch that begins late.
    let page =
        store.range(Range { prefix: SECRET.to_owned(), revision: Some(start + 1), ..Range::default() });
    assert_eq!(page.await.unwrap().entries[0].value, PLAIN);
    let conditions = vec![Condition { key: SECRET.to_owned(), revision: 0 }];
    let Outcome::Conflict(found) = store.commit(Commit { conditions, ops: Vec::new() }).await.unwrap() else {
        panic!("the key is there");
    };
    assert_eq!(found.found.unwrap().value, "{}");
    // A watch that meets what it cannot read ends with the reason.
    put(&*store, SECRET, PLAIN).await;
    store.set_rules(rules(&[&keys("aesgcm", &["two"])]).await);
    let told = watch.next().await.unwrap().unwrap_err().to_string();
    assert!(told.contains("\"one\""), "{told}");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn store_with_encrypted_values_needs_its_configuration() {
    let World { raw, store, .. } = world(&[&keys("aesgcm", &["one"]), "{identity: {}}"]).await;
    put(&*store, SECRET, PLAIN).await;
    let told = refuse_encrypted(&*raw).await.unwrap_err().to_string();
    assert!(told.contains("aesgcm \"one\"") && told.contains("--encryption-provider-config"), "{told}");
    store.set_rules(rules(&["{identity: {}}", &keys("aesgcm", &["one"])]).await);
    put(&*store, SECRET, PLAIN).await;
    refuse_encrypted(&*raw).await.unwrap();
}

#[tokio::test]
async fn kms_seals_a_seed_and_is_asked_no_more_than_needed() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kms.sock");
    let provider =
        format!("{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{}'}}}}", socket.display());
    let away = Rules::of(&file(&provider)).await.err().unwrap().to_string();
    assert!(away.starts_with("kms vault: Status: "), "{away}");
    let service = Plugin::new("first");
    service.serve(&socket);
    service.state().healthz = "sealed".to_owned();
    let ill = Rules::of(&file(&provider)).await.err().unwrap().to_string();
    assert!(ill.contains("the plugin is not well: sealed"), "{ill}");
    service.state().healthz = "ok".to_owned();

    let World { raw, store, dir: _kept } = world(&[&provider]).await;
    for name in 0..50 {
        put(&*store, &format!("/registry/core/secrets/default/{name}"), PLAIN).await;
    }
    let lies = get(&*raw, "/registry/core/secrets/default/7").await.unwrap();
    assert!(lies.starts_with("k8s:enc:kms:v2:vault:") && !lies.contains("nobody"), "{lies}");
    assert_eq!(service.state().decryptions, 0, "what it sealed itself is known");
    // As after a restart: one question for all of them.
    store.set_rules(rules(&[&provider]).await);
    let range = Range { prefix: "/registry/core/secrets/".to_owned(), ..Range::default() };
    let page = store.range(range.clone()).await.unwrap();
    assert!(page.entries.len() == 50 && page.entries.iter().all(|entry| entry.value == PLAIN));
    assert_eq!(service.state().decryptions, 1);
    assert!(!store.is_stale("/registry/core/secrets/default/7").await.unwrap());
    // Its key is exchanged: values are good, and stale.
    service.state().key = "second".to_owned();
    store.set_rules(rules(&[&provider]).await);
    assert!(store.range(range).await.is_ok());
    assert!(store.is_stale("/registry/core/secrets/default/7").await.unwrap());
    put(&*store, SECRET, PLAIN).await;
    assert!(!store.is_stale(SECRET).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_lie_encrypted_in_etcd_too() {
    let etcd = EtcdServer::start().await;
    let raw = EtcdStore::connect(&etcd.address(), "/test", Options::default()).await.unwrap();
    let store = EncryptedStore::open(raw.clone(), rules(&[&keys("aesgcm", &["one"])]).await).await.unwrap();
    let mut watch = store.watch(SECRET, store.revision().await.unwrap()).await.unwrap();
    put(&*store, SECRET, PLAIN).await;
    assert!(get(&*raw, SECRET).await.unwrap().starts_with("k8s:enc:aesgcm:v1:one:"));
    assert_eq!(get(&*store, SECRET).await.unwrap(), PLAIN);
    loop {
        if let WatchItem::Event(event) = watch.next().await.unwrap().unwrap() {
            assert_eq!(event.change, Change::Put(PLAIN.into()));
            break;
        }
    }
}
