//! Reading many keys, now and then.

use minik8s_store::{Error, Options, Page, Range, Revision, Store};

use super::{Lab, commit, delete, put};

async fn read(
    store: &dyn Store,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
    revision: Option<Revision>,
) -> Page {
    let range = Range { prefix: prefix.into(), after: after.map(Into::into), limit, revision };
    store.range(range).await.expect("reading a range")
}

fn keys(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| &*entry.key).collect()
}

fn values(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| std::str::from_utf8(&entry.value).unwrap()).collect()
}

pub async fn prefixes_bound_ranges(lab: &impl Lab) {
    let store = lab.default_store().await;
    for key in ["/pods/b", "/pods/a", "/pods", "/podsx", "/pods/a/c", "/node", "/\u{10ffff}"] {
        commit(&*store, put(key, "1")).await;
    }
    let cases: [(&str, &[&str]); 6] = [
        ("/pods/", &["/pods/a", "/pods/a/c", "/pods/b"]),
        ("/pods", &["/pods", "/pods/a", "/pods/a/c", "/pods/b", "/podsx"]),
        ("/pods/a", &["/pods/a", "/pods/a/c"]),
        ("/\u{10ffff}", &["/\u{10ffff}"]),
        ("/none", &[]),
        ("", &["/node", "/pods", "/pods/a", "/pods/a/c", "/pods/b", "/podsx", "/\u{10ffff}"]),
    ];
    for (prefix, expected) in cases {
        let page = read(&*store, prefix, None, 0, None).await;
        assert_eq!(keys(&page), expected, "{prefix:?}");
        assert!(!page.more);
    }
}

pub async fn pages_follow_each_other(lab: &impl Lab) {
    let store = lab.default_store().await;
    for number in 0..5 {
        commit(&*store, put(&format!("/a/{number}"), "1")).await;
    }
    commit(&*store, put("/b", "1")).await;
    let cases: [(Option<&str>, usize, &[&str], bool); 7] = [
        (None, 2, &["/a/0", "/a/1"], true),
        (Some("/a/1"), 2, &["/a/2", "/a/3"], true),
        (Some("/a/3"), 2, &["/a/4"], false),
        (Some("/a/4"), 2, &[], false),
        (Some("/a/25"), 1, &["/a/3"], true),
        (Some("/"), 1, &["/a/0"], true),
        (Some("/z"), 1, &[], false),
    ];
    for revision in [None, Some(store.revision().await.unwrap())] {
        for (after, limit, expected, more) in cases {
            let page = read(&*store, "/a/", after, limit, revision).await;
            assert_eq!((keys(&page), page.more), (expected.to_vec(), more), "after {after:?}");
        }
        let page = read(&*store, "/a/", None, 2, revision).await;
        assert!(page.remaining.is_none_or(|remaining| remaining == 3));
    }
}

pub async fn pages_stay_on_their_snapshot(lab: &impl Lab) {
    // A tiny window: the engine must look elsewhere.
    for window_events in [0, 4096] {
        let store = lab.store(Options { window_events, ..Options::default() }).await;
        for number in 0..6 {
            commit(&*store, put(&format!("/a/{number}"), "old")).await;
        }
        let first = read(&*store, "/a/", None, 3, None).await;
        commit(&*store, delete("/a/3")).await;
        commit(&*store, put("/a/35", "new")).await;
        commit(&*store, put("/a/4", "new")).await;
        commit(&*store, put("/a/4", "newer")).await;
        let second = read(&*store, "/a/", Some("/a/2"), 2, Some(first.revision)).await;
        assert_eq!((keys(&second), second.more), (vec!["/a/3", "/a/4"], true));
        assert_eq!(values(&second), ["old", "old"]);
        assert_eq!(second.revision, first.revision);
        let third = read(&*store, "/a/", Some("/a/4"), 2, Some(first.revision)).await;
        assert_eq!((keys(&third), third.more), (vec!["/a/5"], false));
        let now = read(&*store, "/a/", Some("/a/2"), 0, None).await;
        assert_eq!(values(&now), ["new", "newer", "old"]);
    }
}

pub async fn old_revisions_can_be_read(lab: &impl Lab) {
    for window_events in [0, 10, 4096] {
        let store = lab.store(Options { window_events, ..Options::default() }).await;
        let before = store.revision().await.unwrap();
        let mut revisions = Vec::new();
        for round in 0..30 {
            revisions.push(commit(&*store, put("/a/hot", round.to_string())).await);
        }
        let gone = commit(&*store, delete("/a/hot")).await;
        let cold = commit(&*store, put("/a/cold", "x")).await;
        assert_eq!(keys(&read(&*store, "/a/", None, 0, Some(before)).await), [""; 0]);
        for (round, revision) in revisions.iter().enumerate() {
            let page = read(&*store, "/a/", None, 0, Some(*revision)).await;
            assert_eq!(values(&page), [round.to_string()]);
            assert_eq!(page.entries[0].revision, *revision);
        }
        assert_eq!(keys(&read(&*store, "/a/", None, 0, Some(gone)).await), [""; 0]);
        assert_eq!(keys(&read(&*store, "/a/", None, 0, Some(cold)).await), ["/a/cold"]);
    }
}

pub async fn large_ranges_come_whole(lab: &impl Lab) {
    let store = lab.default_store().await;
    let value = vec![b'x'; 100 << 10];
    for number in 0..60 {
        commit(&*store, put(&format!("/large/{number:03}"), value.clone())).await;
    }
    let revision = store.revision().await.unwrap();
    for revision in [None, Some(revision)] {
        let page = read(&*store, "/large/", None, 0, revision).await;
        assert_eq!((page.entries.len(), page.more), (60, false));
        assert!(page.entries.is_sorted_by(|a, b| a.key < b.key));
        let page = read(&*store, "/large/", None, 59, revision).await;
        assert_eq!((page.entries.len(), page.more), (59, true));
    }
}

pub async fn the_future_cannot_be_read(lab: &impl Lab) {
    let store = lab.default_store().await;
    let newest = commit(&*store, put("/a", "1")).await;
    let range = Range { revision: Some(newest + 100), ..Range::default() };
    match store.range(range).await {
        Err(Error::FutureRevision { requested, .. }) => assert_eq!(requested, newest + 100),
        other => panic!("{other:?}"),
    }
}
