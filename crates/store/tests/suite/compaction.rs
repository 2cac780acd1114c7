//! Forgetting history, and only history.

use std::time::Duration;

use minik8s_store::{Change, Error, Options, Range, Store};

use super::{Lab, commit, delete, next_event, put, soon};

async fn is_compacted(store: &dyn Store, revision: u64) -> bool {
    match store.range(Range { revision: Some(revision), ..Range::default() }).await {
        Ok(_) => false,
        Err(Error::Compacted { requested, .. }) => {
            assert_eq!(requested, revision);
            true
        }
        Err(other) => panic!("{other}"),
    }
}

/// Whether a watch tells that its history is gone: at once or as its first item.
async fn watch_is_compacted(store: &dyn Store, after: u64) -> bool {
    match store.watch("/", after).await {
        Err(Error::Compacted { .. }) => true,
        Err(other) => panic!("{other}"),
        Ok(mut watch) => matches!(soon("an item", watch.next()).await, Some(Err(Error::Compacted { .. }))),
    }
}

pub async fn compacted_history_is_gone(lab: &impl Lab) {
    for window_events in [0, 4096] {
        let store = lab.store(Options { window_events, ..Options::default() }).await;
        let mut revisions = Vec::new();
        for number in 0..10 {
            revisions.push(commit(&*store, put("/a", number.to_string())).await);
        }
        assert!(!is_compacted(&*store, revisions[2]).await);
        store.compact(revisions[5]).await.unwrap();
        assert!(is_compacted(&*store, revisions[2]).await);
        assert!(is_compacted(&*store, revisions[4]).await);
        assert!(!is_compacted(&*store, revisions[5]).await);
        assert!(watch_is_compacted(&*store, revisions[4]).await);
        assert!(!watch_is_compacted(&*store, revisions[5]).await);
        assert!(matches!(store.compact(revisions[2]).await, Err(Error::Compacted { .. })));
        assert!(matches!(store.compact(revisions[9] + 9).await, Err(Error::FutureRevision { .. })));
    }
}

pub async fn the_rest_of_history_stays(lab: &impl Lab) {
    for window_events in [0, 4096] {
        let store = lab.store(Options { window_events, ..Options::default() }).await;
        commit(&*store, put("/stays", "s")).await;
        commit(&*store, put("/goes", "g")).await;
        commit(&*store, put("/changes", "1")).await;
        commit(&*store, delete("/goes")).await;
        let middle = commit(&*store, put("/changes", "2")).await;
        let later = commit(&*store, put("/changes", "3")).await;
        store.compact(middle).await.unwrap();

        let page = store.range(Range { revision: Some(middle), ..Range::default() }).await.unwrap();
        let found: Vec<_> = page.entries.iter().map(|entry| (&*entry.key, &entry.value[..])).collect();
        assert_eq!(found, [("/changes", &b"2"[..]), ("/stays", &b"s"[..])]);
        let mut watch = store.watch("/", middle).await.unwrap();
        let event = next_event(&mut watch).await;
        assert_eq!((event.revision, &event.change), (later, &Change::Put("3".into())));
        assert_eq!(&event.previous.as_ref().unwrap().value[..], b"2");
    }
}

pub async fn history_goes_by_itself(lab: &impl Lab) {
    let store = lab.store(Options { history: Duration::from_millis(300), ..Options::default() }).await;
    let first = commit(&*store, put("/a", "1")).await;
    let newest = commit(&*store, put("/a", "2")).await;
    let forgotten = async {
        while !is_compacted(&*store, first).await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("compaction", forgotten).await;
    let page = store.range(Range { revision: Some(newest), ..Range::default() }).await.unwrap();
    assert_eq!(&page.entries[0].value[..], b"2");
}
