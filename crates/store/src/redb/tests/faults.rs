//! Disks that fail, fill up or take their time.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::simulated_disk::{Failure, SimulatedDisk};
use super::{open, put, try_put};
use crate::{Error, Range, RedbStore, Result, Revision, Store, WatchItem};

/// Fails the disk at every point of a commit in turn. Whatever is answered must be true, then and after
/// opening again.
async fn check_failures(how_many: usize, lies: bool) {
    let mut has_failed = true;
    let mut after = 0;
    while has_failed {
        let disk = SimulatedDisk::new();
        let store = open(&disk).unwrap();
        let first = try_put(&store, "/a", "1").await.unwrap();
        disk.fail(Failure { after, how_many, lies });
        let answers = [try_put(&store, "/b", "2").await, try_put(&store, "/c", "3").await];
        assert_eq!(store.get("/a").await.unwrap().unwrap().revision, first, "reads go on");
        has_failed = disk.heal();

        let last = try_put(&store, "/d", "4").await.expect("a healed disk works again");
        let committed = answers.iter().filter(|answer| answer.is_ok()).count() as u64;
        assert_eq!(last, first + committed + 1, "failed commits leave no revision");
        let before = store.range(Range::default()).await.unwrap();
        store.close().await;
        let again = open(&disk).unwrap();
        assert_eq!(again.range(Range::default()).await.unwrap(), before);
        for (key, answer) in ["/b", "/c"].into_iter().zip(answers) {
            let found = again.get(key).await.unwrap().map(|entry| entry.revision);
            assert_eq!(found, answer.ok(), "{key} when failing after {after}");
        }
        after += 1;
    }
}

#[tokio::test]
async fn a_failing_disk_loses_nothing_it_promised() {
    check_failures(1, false).await;
    check_failures(1000, false).await;
}

#[tokio::test]
async fn a_disk_that_fails_only_in_words_is_believed_when_read() {
    check_failures(1, true).await;
}

#[tokio::test]
async fn a_full_disk_is_named() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    disk.fail(Failure { after: 0, how_many: usize::MAX, lies: false });
    let error = try_put(&store, "/a", "1").await.unwrap_err();
    assert!(error.to_string().contains("full"), "{error}");
    assert!(error.to_string().contains("simulated"), "{error}");
}

fn put_in_background(store: &Arc<RedbStore>, key: &str) -> JoinHandle<Result<Revision>> {
    let (store, key) = (store.clone(), key.to_owned());
    tokio::spawn(async move { try_put(&store, &key, "x").await })
}

#[tokio::test]
async fn nothing_is_seen_before_it_is_durable() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    let start = store.revision().await.unwrap();
    let mut watch = store.watch("/", start).await.unwrap();
    disk.block_syncs(true);
    let commit = put_in_background(&store, "/a");
    disk.until_blocked().await;
    let silence = tokio::time::timeout(Duration::from_millis(50), watch.next()).await;
    assert!(silence.is_err(), "{silence:?}");
    assert!(!commit.is_finished());
    assert_eq!(store.get("/a").await.unwrap(), None);
    assert_eq!(store.revision().await.unwrap(), start);
    disk.block_syncs(false);
    let revision = commit.await.unwrap().unwrap();
    match watch.next().await {
        Some(Ok(WatchItem::Event(event))) => assert_eq!(event.revision, revision),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_slow_disk_slows_only_writes_and_those_together() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    try_put(&store, "/a", "1").await.unwrap();
    disk.block_syncs(true);
    let before = disk.syncs();
    let commits: Vec<_> = (0..100).map(|number| put_in_background(&store, &format!("/{number}"))).collect();
    disk.until_blocked().await;
    assert!(store.get("/a").await.unwrap().is_some());
    assert_eq!(store.range(Range::default()).await.unwrap().entries.len(), 1);
    disk.block_syncs(false);
    let mut revisions = Vec::new();
    for commit in commits {
        revisions.push(commit.await.unwrap().unwrap());
    }
    revisions.sort_unstable();
    assert!(revisions.windows(2).all(|pair| pair[1] == pair[0] + 1), "each has its own revision");
    assert!(disk.syncs() - before <= 4, "{} syncs for 100 commits", disk.syncs() - before);
}

#[tokio::test]
async fn who_gave_up_waiting_is_not_served() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    disk.block_syncs(true);
    let busy = put_in_background(&store, "/busy");
    disk.until_blocked().await;
    let given_up = tokio::time::timeout(Duration::from_millis(20), store.commit(put("/late", "1"))).await;
    assert!(given_up.is_err());
    disk.block_syncs(false);
    busy.await.unwrap().unwrap();
    try_put(&store, "/next", "1").await.unwrap();
    assert_eq!(store.get("/late").await.unwrap(), None);
}

#[tokio::test]
async fn closing_finishes_what_was_begun_and_ends_watches() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    let mut watch = store.watch("/", 1).await.unwrap();
    disk.block_syncs(true);
    let commit = put_in_background(&store, "/a");
    disk.until_blocked().await;
    let closing = tokio::spawn(store.clone().close());
    disk.block_syncs(false);
    closing.await.unwrap();
    commit.await.unwrap().unwrap();
    assert!(matches!(watch.next().await, Some(Ok(WatchItem::Event(_)))));
    assert!(watch.next().await.is_none());
    assert!(matches!(try_put(&store, "/b", "1").await, Err(Error::Closed)));
}
