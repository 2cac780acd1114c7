//! Writing, and reading what was written.

use std::collections::BTreeSet;

use minik8s_store::{Condition, Op, Outcome, Range, Store};

use super::{Lab, commit, delete, if_at, put};

pub async fn puts_gets_and_deletes(lab: &impl Lab) {
    let store = lab.default_store().await;
    assert_eq!(store.get("/a").await.unwrap(), None);
    let first = commit(&*store, put("/a", "1")).await;
    let second = commit(&*store, put("/a", "2")).await;
    assert_eq!(second, first + 1);
    assert_eq!(store.revision().await.unwrap(), second);
    let entry = store.get("/a").await.unwrap().unwrap();
    assert_eq!((&*entry.key, &entry.value[..], entry.revision), ("/a", &b"2"[..], second));
    let third = commit(&*store, delete("/a")).await;
    assert_eq!(third, second + 1);
    assert_eq!(store.get("/a").await.unwrap(), None);
}

pub async fn conditions_guard_commits(lab: &impl Lab) {
    let store = lab.default_store().await;
    let first = commit(&*store, if_at("/a", 0, put("/a", "1"))).await;

    check_conflict(&*store, &[("/a", 0)], "/a", Some("1")).await;
    check_conflict(&*store, &[("/a", first + 1)], "/a", Some("1")).await;
    check_conflict(&*store, &[("/b", first)], "/b", None).await;
    check_conflict(&*store, &[("/a", first), ("/b", 7)], "/b", None).await;
    check_conflict(&*store, &[("/b", 7), ("/a", 0)], "/b", None).await;
    assert_eq!(store.revision().await.unwrap(), first);

    let second = commit(&*store, if_at("/b", 0, if_at("/a", first, put("/a", "2")))).await;
    let third = commit(&*store, if_at("/a", second, delete("/a"))).await;
    check_conflict(&*store, &[("/a", second)], "/a", None).await;
    assert_eq!(commit(&*store, if_at("/a", 0, put("/a", "3"))).await, third + 1);
}

async fn check_conflict(store: &dyn Store, conditions: &[(&str, u64)], key: &str, found: Option<&str>) {
    let mut attempt = put("/a", "never");
    for &(key, revision) in conditions {
        attempt.conditions.push(Condition { key: key.into(), revision });
    }
    match store.commit(attempt).await.unwrap() {
        Outcome::Conflict(conflict) => {
            assert_eq!(conflict.key, key, "{conditions:?}");
            let value = conflict.found.map(|entry| String::from_utf8(entry.value.to_vec()).unwrap());
            assert_eq!(value.as_deref(), found, "{conditions:?}");
        }
        Outcome::Committed(_) => panic!("{conditions:?} held"),
    }
}

pub async fn several_operations_share_a_revision(lab: &impl Lab) {
    let store = lab.default_store().await;
    commit(&*store, put("/old", "x")).await;
    let mut several = put("/a", "1");
    several.ops.push(Op::Put { key: "/b".into(), value: "2".into() });
    several.ops.push(Op::Delete { key: "/old".into() });
    let revision = commit(&*store, several).await;
    let page = store.range(Range { prefix: "/".into(), ..Range::default() }).await.unwrap();
    assert_eq!(page.revision, revision);
    let found: Vec<_> = page.entries.iter().map(|entry| (&*entry.key, entry.revision)).collect();
    assert_eq!(found, [("/a", revision), ("/b", revision)]);
}

pub async fn the_last_operation_on_a_key_counts(lab: &impl Lab) {
    let store = lab.default_store().await;
    let mut several = put("/a", "1");
    several.ops.push(Op::Put { key: "/b".into(), value: "1".into() });
    several.ops.push(Op::Put { key: "/a".into(), value: "2".into() });
    several.ops.push(Op::Delete { key: "/b".into() });
    commit(&*store, several).await;
    assert_eq!(&store.get("/a").await.unwrap().unwrap().value[..], b"2");
    assert_eq!(store.get("/b").await.unwrap(), None);
}

pub async fn what_changes_nothing_makes_no_revision(lab: &impl Lab) {
    let store = lab.default_store().await;
    let revision = commit(&*store, put("/a", "1")).await;
    assert_eq!(commit(&*store, delete("/b")).await, revision);
    assert_eq!(commit(&*store, if_at("/a", revision, Default::default())).await, revision);
    assert_eq!(store.revision().await.unwrap(), revision);
    assert_eq!(commit(&*store, put("/a", "1")).await, revision + 1, "writing the same again is a change");
}

pub async fn odd_keys_and_values_survive(lab: &impl Lab) {
    let store = lab.default_store().await;
    let megabyte = vec![7; 1 << 20];
    let cases: [(&str, &[u8]); 5] =
        [("x", b""), ("/ü/\u{10ffff}", b"\0\xff"), ("/a b\n", b"1"), ("/a", b"2"), ("/large", &megabyte)];
    for (key, value) in cases {
        commit(&*store, put(key, value.to_vec())).await;
    }
    for (key, value) in cases {
        assert_eq!(&store.get(key).await.unwrap().unwrap().value[..], value, "{key:?}");
    }
    let page = store.range(Range::default()).await.unwrap();
    assert_eq!(page.entries.len(), cases.len());
}

pub async fn racing_increments_are_not_lost(lab: &impl Lab) {
    let store = lab.default_store().await;
    commit(&*store, put("/counter", "0")).await;
    let tasks = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            while revisions.len() < 10 {
                let entry = store.get("/counter").await.unwrap().unwrap();
                let number: u32 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
                let next = put("/counter", (number + 1).to_string());
                if let Outcome::Committed(revision) =
                    store.commit(if_at("/counter", entry.revision, next)).await.unwrap()
                {
                    revisions.push(revision);
                }
            }
            revisions
        })
    });
    let mut revisions = BTreeSet::new();
    for task in tasks.collect::<Vec<_>>() {
        revisions.extend(task.await.unwrap());
    }
    assert_eq!(revisions.len(), 80, "each commit has its own revision");
    assert_eq!(&store.get("/counter").await.unwrap().unwrap().value[..], b"80");
}
