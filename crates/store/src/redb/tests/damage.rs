//! Files that are not what they should be give an error that says so, and never a panic.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;

use super::try_put;
use crate::{Error, Options, Range, RedbStore, Store};

fn open(path: &Path) -> Result<(), String> {
    RedbStore::open(path, Options::default()).map(drop).map_err(|error| match error {
        Error::Open(_) | Error::InUse(_) => error.to_string(),
        other => panic!("{other}"),
    })
}

#[test]
fn what_cannot_be_opened_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("garbage"), vec![b'x'; 100_000]).unwrap();
    std::fs::write(path("short"), "x").unwrap();
    std::fs::write(path("empty"), "").unwrap();
    std::fs::create_dir(path("directory")).unwrap();
    let cases = [
        ("garbage", "move it away"),
        ("short", "move it away"),
        ("directory", "check that"),
        ("missing/store", "check that the directory exists"),
    ];
    for (name, advice) in cases {
        let error = open(&path(name)).unwrap_err();
        assert!(error.contains(name) && error.contains(advice), "{error}");
    }
    open(&path("empty")).unwrap();
}

#[test]
fn a_file_in_use_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let first = RedbStore::open(&path, Options::default()).unwrap();
    let error = open(&path).unwrap_err();
    assert!(error.contains("in use by another process"), "{error}");
    drop(first);
    open(&path).unwrap();
}

/// The bytes of a store that was closed in order.
fn sound_file(path: &Path) -> Vec<u8> {
    Runtime::new().unwrap().block_on(async {
        let store = RedbStore::open(path, Options::default()).unwrap();
        for number in 0..30 {
            try_put(&store, &format!("/{}", number % 9), vec![number; 700]).await.unwrap();
        }
        store.close().await;
    });
    std::fs::read(path).unwrap()
}

#[test]
fn damage_never_panics() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let sound = sound_file(&path);
    let used: Vec<usize> = (0..sound.len()).filter(|place| sound[*place] != 0).collect();
    let places = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..50);
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    let config = ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&(places, cut), |(places, cut)| {
        let mut bytes = sound.clone();
        for (place, byte) in places {
            bytes[*place.get(&used)] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        std::fs::write(&path, bytes).unwrap();
        Runtime::new().unwrap().block_on(use_it(&path));
        Ok(())
    });
    result.unwrap();
}

/// What is read must have been written; errors are welcome.
async fn use_it(path: &Path) {
    let Ok(store) = RedbStore::open(path, Options::default()) else { return };
    for entry in store.range(Range::default()).await.unwrap().entries {
        assert!(entry.value.len() == 700 && entry.value.iter().all(|byte| *byte == entry.value[0]));
    }
    let _ = store.range(Range { revision: Some(5), ..Range::default() }).await;
    let _ = try_put(&store, "/new", "1").await;
    if let Ok(mut watch) = store.watch("/", 1).await {
        let _ = tokio::time::timeout(Duration::from_millis(5), watch.next()).await;
    }
}
