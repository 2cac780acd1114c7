//! A store's contents in another store: whole, at once, and with revisions that go on rising.

#![allow(clippy::unwrap_used)]

mod etcd_server;
#[allow(dead_code)]
mod suite;

use std::sync::Arc;

use bytes::Bytes;
use etcd_server::EtcdServer;
use minik8s_store::{Commit, Contents, Error, EtcdStore, Op, Options, Outcome, RedbStore, Store, backup};
use suite::{Lab, commit, if_at, next_event, put};
use tempfile::TempDir;

/// A place that a store can be in, of either engine.
enum Place<'a> {
    Redb(TempDir),
    Etcd(&'a EtcdServer, &'static str),
}

impl Place<'_> {
    async fn fill(&self, contents: &Contents, replace: bool) -> Result<(), Error> {
        match self {
            Place::Redb(directory) => RedbStore::fill(directory.path().join("store.redb"), contents, replace),
            Place::Etcd(server, prefix) => {
                EtcdStore::fill(&server.address(), prefix, contents, replace).await
            }
        }
    }

    async fn open(&self) -> Arc<dyn Store> {
        match self {
            Place::Redb(directory) => {
                RedbStore::open(directory.path().join("store.redb"), Options::default()).unwrap()
            }
            Place::Etcd(server, prefix) => server.connect(prefix, Options::default()).await,
        }
    }
}

/// More than etcd takes in one transaction, in number and in size.
fn sample() -> Contents {
    let mut entries: Vec<(String, Bytes)> =
        (0..1234).map(|number| (format!("/many/{number:04}"), Bytes::from(number.to_string()))).collect();
    entries.extend((0..3).map(|number| (format!("/large/{number}"), Bytes::from(vec![b'x'; 900_000]))));
    entries.push(("/empty".to_owned(), Bytes::new()));
    entries.sort();
    Contents { revision: 5_000_000_000, entries }
}

async fn check(place: Place<'_>) {
    let contents = sample();
    place.fill(&contents, false).await.unwrap();
    let store = place.open().await;
    let read = Contents::read(&*store).await.unwrap();
    assert_eq!(read.entries, contents.entries);
    assert!(read.revision >= contents.revision, "{}", read.revision);

    // What was handed out before means nothing any more, and is never handed out again.
    assert!(matches!(store.watch("/", 4_999_999_999).await.map(drop), Err(Error::Compacted { .. })));
    let old = if_at("/empty", 4_000_000_000, put("/empty", "x"));
    assert!(matches!(store.commit(old).await.unwrap(), Outcome::Conflict(_)));
    let now = store.revision().await.unwrap();
    let mut watch = store.watch("/empty", now).await.unwrap();
    let entry = store.get("/empty").await.unwrap().unwrap();
    let written = commit(&*store, if_at("/empty", entry.revision, put("/empty", "x"))).await;
    assert!(written > now && now >= contents.revision);
    let event = next_event(&mut watch).await;
    assert_eq!((event.revision, event.previous.as_ref()), (written, Some(&entry)));
    store.compact(written).await.unwrap();
    assert_eq!(store.get("/empty").await.unwrap().unwrap().revision, written);
    drop((watch, store));

    // Contents are not lost by mistake, and what replaces them goes on above them.
    assert!(matches!(place.fill(&contents, false).await, Err(Error::NotEmpty(_))));
    assert_eq!(place.open().await.get("/empty").await.unwrap().unwrap().value, "x");
    let less = Contents { revision: written + 1000, entries: vec![("/a".to_owned(), Bytes::from("1"))] };
    place.fill(&less, true).await.unwrap();
    let store = place.open().await;
    assert_eq!(Contents::read(&*store).await.unwrap().entries, less.entries);
    assert!(store.revision().await.unwrap() > written);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redb_can_be_filled() {
    check(Place::Redb(tempfile::tempdir().unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_can_be_filled() {
    let server = EtcdServer::start().await;
    check(Place::Etcd(&server, "/filled")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_was_half_filled_is_used_by_nobody() {
    let server = EtcdServer::start().await;
    let mut client = etcd_client::Client::connect([server.endpoint()], None).await.unwrap();
    client.put("/half/filling", "", None).await.unwrap();
    client.put("/half/keys/a", "1", None).await.unwrap();
    match EtcdStore::connect(&server.address(), "/half", Options::default()).await.map(drop) {
        Err(Error::Open(why)) => assert!(why.contains("broke off"), "{why}"),
        other => panic!("{other:?}"),
    }
    // It is nobody's: it can be filled without force.
    let contents = sample();
    EtcdStore::fill(&server.address(), "/half", &contents, false).await.unwrap();
    let store = server.connect("/half", Options::default()).await;
    assert_eq!(Contents::read(&*store).await.unwrap().entries, contents.entries);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redb_in_use_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = RedbStore::open(&path, Options::default()).unwrap();
    assert!(matches!(RedbStore::fill(&path, &sample(), true), Err(Error::InUse(_))));
    commit(&*store, put("/a", "1")).await;
}

/// Everything the engine does, on a store that counts from far above etcd's own revisions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filled_etcd_passes_the_suite() {
    struct FilledLab {
        server: EtcdServer,
        stores: std::sync::atomic::AtomicUsize,
    }
    impl Lab for FilledLab {
        async fn store(&self, options: Options) -> Arc<dyn Store> {
            let number = self.stores.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let prefix = format!("/test/{number}");
            let nothing = Contents { revision: 7_000_000_000, entries: Vec::new() };
            EtcdStore::fill(&self.server.address(), &prefix, &nothing, false).await.unwrap();
            self.server.connect(&prefix, options).await
        }

        fn cases(&self) -> u32 {
            3
        }
    }
    let lab = FilledLab { server: EtcdServer::start().await, stores: Default::default() };
    macro_rules! case {
        ($module:ident, $case:ident) => {
            println!("{}", stringify!($case));
            suite::$module::$case(&lab).await;
        };
    }
    for_each_case!(case);
}

/// A backup of a store that is written to meanwhile is the store at one moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_of_one_moment() {
    use futures::TryStreamExt;
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path().join("store.redb"), Options::default()).unwrap();
    let ops = (0..1500).map(|number| Op::Put { key: format!("/{number:04}"), value: "0".into() });
    commit(&*store, Commit { conditions: Vec::new(), ops: ops.collect() }).await;
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            // Always both in one commit: a moment between them does not exist.
            for number in 1.. {
                let value = Bytes::from(number.to_string());
                let ops = ["/0000", "/1499"].map(|key| Op::Put { key: key.into(), value: value.clone() });
                let twice = Commit { conditions: Vec::new(), ops: ops.into() };
                commit(&*store, twice).await;
            }
        })
    };
    for _ in 0..10 {
        let parts: Vec<Bytes> = backup::stream(store.clone(), "n".into()).try_collect().await.unwrap();
        let backup = backup::decode(&parts.concat().into()).unwrap();
        let value = |key: &str| backup.contents.entries.iter().find(|(k, _)| k == key).unwrap().1.clone();
        assert_eq!(backup.contents.entries.len(), 1500);
        assert_eq!(value("/0000"), value("/1499"));
    }
    writer.abort();
}
