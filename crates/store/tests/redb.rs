//! The suite against the embedded engine.

#![allow(clippy::unwrap_used)]

mod suite;

use std::sync::Arc;

use minik8s_store::{Options, RedbStore, Store};
use parking_lot::Mutex;
use suite::Lab;
use tempfile::TempDir;

#[derive(Default)]
struct RedbLab {
    directories: Mutex<Vec<TempDir>>,
}

impl Lab for RedbLab {
    async fn store(&self, options: Options) -> Arc<dyn Store> {
        let directory = tempfile::tempdir().unwrap();
        let store = RedbStore::open(directory.path().join("store.redb"), options).unwrap();
        self.directories.lock().push(directory);
        store
    }

    fn cases(&self) -> u32 {
        40
    }
}

macro_rules! test {
    ($module:ident, $case:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            suite::$module::$case(&RedbLab::default()).await;
        }
    };
}

for_each_case!(test);
