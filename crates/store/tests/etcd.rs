//! The suite against a real etcd, one for all cases, each with a prefix of its own, one after the other,
//! since revisions and compaction are the whole cluster's.

#![allow(clippy::unwrap_used)]

mod etcd_server;
mod suite;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use etcd_server::EtcdServer;
use minik8s_store::{Error, EtcdAddress, EtcdStore, Options, Store, WatchItem};
use suite::{Lab, commit, next_event, put, soon};

struct EtcdLab {
    server: EtcdServer,
    stores: AtomicUsize,
}

impl Lab for EtcdLab {
    async fn store(&self, options: Options) -> Arc<dyn Store> {
        let number = self.stores.fetch_add(1, Ordering::Relaxed);
        self.server.connect(&format!("/test/{number}"), options).await
    }

    fn cases(&self) -> u32 {
        10
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_passes_the_suite() {
    let lab = EtcdLab { server: EtcdServer::start().await, stores: AtomicUsize::new(0) };
    macro_rules! case {
        ($module:ident, $case:ident) => {
            println!("{}", stringify!($case));
            suite::$module::$case(&lab).await;
        };
    }
    for_each_case!(case);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_survive_a_restart() {
    let mut server = EtcdServer::start().await;
    let store = server.connect("/test", Options { window_events: 2, ..Options::default() }).await;
    let start = store.revision().await.unwrap();
    let mut live = store.watch("/a", start).await.unwrap();
    for number in 0..10 {
        commit(&*store, put("/a", number.to_string())).await;
    }
    let mut behind = store.watch("/a", start).await.unwrap();
    server.restart().await;
    let after = soon("etcd to be back", async {
        loop {
            match store.commit(put("/a", "after")).await {
                Ok(outcome) => return outcome,
                Err(error) => println!("{error}"),
            }
        }
    });
    after.await;
    for watch in [&mut live, &mut behind] {
        for number in 0..10 {
            let event = next_event(watch).await;
            assert_eq!(event.change, minik8s_store::Change::Put(number.to_string().into()));
        }
        assert_eq!(next_event(watch).await.change, minik8s_store::Change::Put("after".into()));
    }
}

/// Others may use the same etcd: their revisions count, but are never seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_passes_the_revisions_of_others() {
    let server = EtcdServer::start().await;
    let store = server.connect("/ours", Options::default()).await;
    let others = server.connect("/theirs", Options::default()).await;
    let mut watch = store.watch("/", store.revision().await.unwrap()).await.unwrap();
    let theirs = commit(&*others, put("/a", "1")).await;
    assert_eq!(store.request_progress(&watch).await.unwrap(), theirs);
    match soon("progress", watch.next()).await {
        Some(Ok(WatchItem::Progress(revision))) => assert!(revision >= theirs),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_wrong_address_says_so() {
    match EtcdStore::connect(&EtcdAddress::new(["http://127.0.0.1:1"]), "/test", Options::default())
        .await
        .map(drop)
    {
        Err(Error::Open(text)) => assert!(text.contains("127.0.0.1:1") && text.contains("check"), "{text}"),
        other => panic!("{other:?}"),
    }
}
