//! The embedded engine's promises about its file: what was acknowledged is there after kill -9, history
//! outlives a restart, and the file does not grow for ever.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_store::{
    Change, Commit, Error, Op, Options, Outcome, Range, RedbStore, Revision, Store, WatchItem,
};

/// Names the file for [`writes_until_killed`], which is a child process and no test.
const CHILD_FILE: &str = "MINIK8S_STORE_CHILD_FILE";
const WRITERS: u32 = 8;

fn open(path: &Path) -> Arc<RedbStore> {
    RedbStore::open(path, Options::default()).unwrap()
}

async fn put(store: &dyn Store, key: String, value: Vec<u8>) -> Revision {
    let ops = vec![Op::Put { key, value: value.into() }];
    match store.commit(Commit { conditions: Vec::new(), ops }).await.unwrap() {
        Outcome::Committed(revision) => revision,
        Outcome::Conflict(conflict) => panic!("{conflict:?}"),
    }
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut revisions = Vec::new();
    let store = open(&path);
    for number in 0..20 {
        revisions.push(put(&*store, format!("/{}", number % 3), vec![number; 10]).await);
    }
    store.compact(revisions[4]).await.unwrap();
    let before = store.range(Range::default()).await.unwrap();
    let past = Range { revision: Some(revisions[9]), ..Range::default() };
    let past_before = store.range(past.clone()).await.unwrap();
    store.close().await;

    let store = open(&path);
    assert_eq!(store.range(Range::default()).await.unwrap(), before);
    assert_eq!(store.range(past).await.unwrap().entries, past_before.entries);
    let gone = store.range(Range { revision: Some(revisions[3]), ..Range::default() }).await;
    assert!(matches!(gone, Err(Error::Compacted { .. })), "{gone:?}");
    let mut watch = store.watch("/", revisions[4]).await.unwrap();
    for (number, revision) in revisions.iter().enumerate().skip(5) {
        match watch.next().await {
            Some(Ok(WatchItem::Event(event))) => {
                assert_eq!(event.revision, *revision);
                assert_eq!(event.change, Change::Put(vec![number as u8; 10].into()));
                assert_eq!(event.previous.as_ref().unwrap().revision, revisions[number - 3]);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(put(&*store, "/new".into(), Vec::new()).await, revisions[19] + 1);
}

#[tokio::test]
async fn kill_9_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    open(&path).close().await;
    for round in 0..6 {
        let store = open(&path);
        let start = store.revision().await.unwrap();
        store.close().await;
        let acknowledged = write_and_kill(&path, Duration::from_millis(100 + 60 * round));
        assert!(!acknowledged.is_empty(), "the child wrote something");
        let store = open(&path);
        check_acknowledged(&store, start, &acknowledged).await;
        store.close().await;
    }
}

/// Runs [`writes_until_killed`] for a while; returns key by revision.
fn write_and_kill(path: &Path, lifetime: Duration) -> BTreeMap<Revision, String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_killed", "--ignored", "--nocapture"])
        .env(CHILD_FILE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = BTreeMap::new();
    let mut killed_at = None;
    while let Some(Ok(line)) = lines.next() {
        // The test harness prints lines of its own, and the last one may be torn.
        if let Some((key, revision)) =
            line.strip_prefix("ack ").and_then(|line| line.strip_suffix(" .")?.split_once(' '))
        {
            acknowledged.insert(revision.parse().unwrap(), key.to_owned());
            killed_at.get_or_insert_with(|| Instant::now() + lifetime);
        }
        if killed_at.is_some_and(|at| Instant::now() > at) {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    acknowledged
}

/// All acknowledged commits are in history with the right value, and there are no gaps.
async fn check_acknowledged(store: &RedbStore, start: Revision, acknowledged: &BTreeMap<Revision, String>) {
    let newest = store.revision().await.unwrap();
    assert!(newest >= *acknowledged.last_key_value().unwrap().0);
    let mut watch = store.watch("/", start).await.unwrap();
    for revision in start + 1..=newest {
        let event = match watch.next().await {
            Some(Ok(WatchItem::Event(event))) => event,
            other => panic!("{other:?}"),
        };
        assert_eq!(event.revision, revision);
        assert_eq!(event.change, Change::Put(value(&event.key).into()));
        if let Some(key) = acknowledged.get(&revision) {
            assert_eq!(&*event.key, key);
        }
    }
}

fn value(key: &str) -> Vec<u8> {
    key.bytes().cycle().take(1500).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a child process of kill_9_loses_nothing_acknowledged"]
async fn writes_until_killed() {
    let Ok(path) = std::env::var(CHILD_FILE) else { return };
    let store = open(Path::new(&path));
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let key = format!("/{writer}/{}", number % 40);
                let revision = put(&*store, key.clone(), value(&key)).await;
                let mut out = std::io::stdout().lock();
                if writeln!(out, "ack {key} {revision} .").and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_stays_bounded() {
    const MEGABYTE: u64 = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let options = Options { history_bytes: 2 * MEGABYTE, ..Options::default() };
    let store = RedbStore::open(&path, options).unwrap();
    let mut sizes = Vec::new();
    for _ in 0..4 {
        let writers = (0..32_u8).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..40_u8 {
                    put(&*store, format!("/{writer}"), vec![number; 5000]).await;
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        sizes.push(std::fs::metadata(&path).unwrap().len() / MEGABYTE);
    }
    println!("megabytes after each 6 MB: {sizes:?}");
    assert!(*sizes.last().unwrap() <= 20, "{sizes:?}");
    assert_eq!(store.range(Range::default()).await.unwrap().entries.len(), 32);
}

#[tokio::test]
async fn a_file_that_has_become_too_large_shrinks() {
    const MEGABYTE: usize = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let size = || std::fs::metadata(&path).unwrap().len() as usize / MEGABYTE;
    let store = open(&path);
    put(&*store, "/small".into(), value("x")).await;
    for number in 0..60 {
        put(&*store, format!("/large/{number}"), vec![1; MEGABYTE / 5]).await;
    }
    let deletions = (0..60).map(|number| Op::Delete { key: format!("/large/{number}") }).collect();
    store.commit(Commit { conditions: Vec::new(), ops: deletions }).await.unwrap();
    let large = size();
    store.compact(store.revision().await.unwrap()).await.unwrap();
    put(&*store, "/small".into(), value("x")).await;
    store.close().await;
    let closed = size();
    let store = open(&path);
    assert_eq!(store.get("/small").await.unwrap().unwrap().value, value("x"));
    println!("full {large} MB, emptied {closed} MB, opened again {} MB", size());
    assert!(size() < 5, "{} MB", size());
}
