//! Watching: in order, without gaps, nothing twice.

use std::time::Duration;

use minik8s_store::{Change, Error, Options, Store, Watch, WatchItem};

use super::{Lab, commit, delete, events_until, next_event, put, soon};

async fn watch(store: &dyn Store, prefix: &str, after: u64) -> Watch {
    store.watch(prefix, after).await.expect("watching")
}

/// Waits until an engine that hears of changes from elsewhere has heard of all so far: until then they would
/// come live, and a small queue would be too small for them.
async fn settle(store: &dyn Store, start: u64) {
    let newest = store.revision().await.unwrap();
    let mut watch = watch(store, "/none", start).await;
    events_until(store, &mut watch, newest).await;
}

pub async fn changes_arrive_with_what_was_before(lab: &impl Lab) {
    let store = lab.default_store().await;
    let start = store.revision().await.unwrap();
    let mut watch = watch(&*store, "/a", start).await;
    let first = commit(&*store, put("/a", "1")).await;
    let second = commit(&*store, put("/a", "2")).await;
    let third = commit(&*store, delete("/a")).await;

    let event = next_event(&mut watch).await;
    assert_eq!((event.revision, &*event.key, &event.change), (first, "/a", &Change::Put("1".into())));
    assert_eq!(event.previous, None);
    let event = next_event(&mut watch).await;
    assert_eq!((event.revision, &event.change), (second, &Change::Put("2".into())));
    let previous = event.previous.as_ref().unwrap();
    assert_eq!((previous.revision, &previous.value[..]), (first, &b"1"[..]));
    let event = next_event(&mut watch).await;
    assert_eq!((event.revision, &event.change), (third, &Change::Delete));
    let previous = event.previous.as_ref().unwrap();
    assert_eq!((&*previous.key, previous.revision, &previous.value[..]), ("/a", second, &b"2"[..]));
}

pub async fn the_past_comes_first(lab: &impl Lab) {
    let store = lab.default_store().await;
    let mut revisions = Vec::new();
    for number in 0..10 {
        revisions.push(commit(&*store, put("/a", number.to_string())).await);
        commit(&*store, put("/b", "x")).await;
    }
    let mut watch = watch(&*store, "/a", revisions[3]).await;
    for revision in &revisions[4..] {
        assert_eq!(next_event(&mut watch).await.revision, *revision);
    }
    let live = commit(&*store, put("/a", "live")).await;
    assert_eq!(next_event(&mut watch).await.revision, live);
}

pub async fn the_far_past_comes_first(lab: &impl Lab) {
    for watch_queue in [2, 1000] {
        let store = lab.store(Options { window_events: 5, watch_queue, ..Options::default() }).await;
        let start = store.revision().await.unwrap();
        let mut revisions = Vec::new();
        for number in 0..50 {
            revisions.push(commit(&*store, put(&format!("/a/{}", number % 7), number.to_string())).await);
            commit(&*store, put("/b", "x")).await;
        }
        settle(&*store, start).await;
        let mut watch = watch(&*store, "/a/", start).await;
        for (number, revision) in revisions.iter().enumerate() {
            let event = next_event(&mut watch).await;
            assert_eq!((event.revision, &event.change), (*revision, &Change::Put(number.to_string().into())));
            let previous = number.checked_sub(7).map(|previous| revisions[previous]);
            assert_eq!(event.previous.as_ref().map(|previous| previous.revision), previous);
        }
        events_until(&*store, &mut watch, revisions[49]).await;
        let live = commit(&*store, put("/a/x", "live")).await;
        assert_eq!(next_event(&mut watch).await.revision, live);
    }
}

pub async fn every_watcher_gets_its_prefix(lab: &impl Lab) {
    let store = lab.default_store().await;
    let start = store.revision().await.unwrap();
    let prefixes = ["", "/", "/pods/", "/pods/a/", "/pods/a/x", "/pod", "/nodes/", "/pods/a/"];
    let mut watches = Vec::new();
    for prefix in prefixes {
        watches.push(watch(&*store, prefix, start).await);
    }
    drop(watches.remove(0));
    let keys = ["/pods/a/x", "/pods/b/x", "/nodes/n", "/pod", "x"];
    let mut newest = start;
    for key in keys {
        newest = commit(&*store, put(key, "1")).await;
    }
    for (prefix, mut watch) in prefixes.into_iter().skip(1).zip(watches) {
        let events = events_until(&*store, &mut watch, newest).await;
        let seen: Vec<&str> = events.iter().map(|event| &*event.key).collect();
        let expected: Vec<&str> = keys.into_iter().filter(|key| key.starts_with(prefix)).collect();
        assert_eq!(seen, expected, "{prefix:?}");
    }
}

pub async fn a_slow_watcher_is_cut_off(lab: &impl Lab) {
    let store = lab.store(Options { window_events: 5, watch_queue: 10, ..Options::default() }).await;
    let start = store.revision().await.unwrap();
    let mut slow = watch(&*store, "/a", start).await;
    let mut quick = watch(&*store, "/a", start).await;
    for number in 0..50 {
        let revision = commit(&*store, put("/a", number.to_string())).await;
        assert_eq!(next_event(&mut quick).await.revision, revision);
    }
    let mut last = start;
    let error = loop {
        match soon("the cut", slow.next()).await.expect("an error before the end") {
            Ok(WatchItem::Event(event)) => {
                assert!(event.revision > last);
                last = event.revision;
            }
            Ok(WatchItem::Progress(_)) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::SlowWatcher), "{error}");
    assert!(soon("the end", slow.next()).await.is_none());
    let mut again = watch(&*store, "/a", last).await;
    assert!(next_event(&mut again).await.revision > last);
}

/// Someone who asks for long history gets it at his own pace, even if others write meanwhile.
pub async fn a_slow_start_is_not_cut_off(lab: &impl Lab) {
    let store = lab.store(Options { window_events: 20, watch_queue: 4, ..Options::default() }).await;
    let start = store.revision().await.unwrap();
    for number in 0..60 {
        commit(&*store, put("/a", number.to_string())).await;
    }
    settle(&*store, start).await;
    let mut watch = watch(&*store, "/a", start).await;
    for number in 0..60 {
        if number < 30 {
            commit(&*store, put("/b", "x")).await;
        }
        assert_eq!(next_event(&mut watch).await.change, Change::Put(number.to_string().into()));
    }
}

pub async fn what_a_watcher_saw_can_be_read(lab: &impl Lab) {
    let store = lab.default_store().await;
    let start = store.revision().await.unwrap();
    let mut watch = watch(&*store, "/a", start).await;
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for number in 0..200 {
                commit(&*store, put("/a", number.to_string())).await;
            }
        }
    });
    for _ in 0..200 {
        let event = next_event(&mut watch).await;
        assert!(store.revision().await.unwrap() >= event.revision);
        assert!(store.get("/a").await.unwrap().unwrap().revision >= event.revision);
    }
    writer.await.unwrap();
}

pub async fn progress_comes_when_asked_for(lab: &impl Lab) {
    let store = lab.default_store().await;
    let start = store.revision().await.unwrap();
    let mut watch = watch(&*store, "/a", start).await;
    for round in 0..20 {
        commit(&*store, put("/a", round.to_string())).await;
        let newest = commit(&*store, put("/b", round.to_string())).await;
        let promised = store.request_progress(&watch).await.unwrap();
        assert_eq!(promised, newest);
        assert_eq!(next_event(&mut watch).await.change, Change::Put(round.to_string().into()));
        match soon("progress", watch.next()).await {
            Some(Ok(WatchItem::Progress(reached))) => assert!(reached >= promised),
            other => panic!("{other:?}"),
        }
    }
}

pub async fn quiet_watchers_hear_of_progress(lab: &impl Lab) {
    let store = lab.store(Options { progress: Duration::from_millis(100), ..Options::default() }).await;
    let start = store.revision().await.unwrap();
    let mut watch = watch(&*store, "/quiet/", start).await;
    let revision = commit(&*store, put("/busy", "1")).await;
    match soon("progress", watch.next()).await {
        Some(Ok(WatchItem::Progress(reached))) => assert_eq!(reached, revision),
        other => panic!("{other:?}"),
    }
    let silence = tokio::time::timeout(Duration::from_millis(400), watch.next()).await;
    assert!(silence.is_err(), "nothing moved, but {silence:?}");
}

pub async fn the_future_cannot_be_watched(lab: &impl Lab) {
    let store = lab.default_store().await;
    let newest = commit(&*store, put("/a", "1")).await;
    match store.watch("/a", newest + 100).await {
        Err(Error::FutureRevision { requested, .. }) => assert_eq!(requested, newest + 100),
        other => panic!("{other:?}"),
    }
}
