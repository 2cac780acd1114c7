//! Measures the store on this machine: `store_bench [SECONDS] [DIRECTORY]`. Ratios to etcd are from the same run, on
//! the same disk, both with fsync. Build it with `--release`.
#![allow(clippy::unwrap_used)]

#[path = "../tests/etcd_server/mod.rs"]
mod etcd_server;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etcd_server::EtcdServer;
use minik8s_store::{Commit, Op, Options, Range, RedbStore, Store, Watch, WatchItem};
use tokio::sync::mpsc;

const WRITERS: usize = 64;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(3, |seconds| seconds.parse().expect("seconds"));
    let parent = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let directory = tempfile::tempdir_in(parent).unwrap();
    let duration = Duration::from_secs(seconds);

    row("resident memory, nothing open", format!("{:.1} MB", resident_megabytes()));
    ranges(&directory.path().join("ranges")).await;
    let redb = puts_into_redb(&directory.path().join("puts"), duration).await;
    let etcd = puts_into_etcd(duration).await;
    row("ratio redb : etcd", format!("{:.1}", redb / etcd));
    for watchers in [1, 1000] {
        watch_latency(&directory.path().join(format!("watch{watchers}")), watchers, duration / 2).await;
    }
}

fn row(what: &str, result: impl std::fmt::Display) {
    println!("{what:<58} {result}");
}

fn put(key: String, bytes: usize) -> Commit {
    Commit { conditions: Vec::new(), ops: vec![Op::Put { key, value: vec![b'x'; bytes].into() }] }
}

fn resident_megabytes() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or_default() * 4096.0 / 1e6
}

/// Runs `work(writer, number)` in many tasks at once, for a while; returns how often per second.
async fn per_second<F, W>(duration: Duration, work: W) -> f64
where
    W: Fn(usize, usize) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    let writers = (0..WRITERS).map(|writer| {
        let (stop, done, work) = (stop.clone(), done.clone(), work.clone());
        tokio::spawn(async move {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                work(writer, number).await;
                done.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    tokio::time::sleep(duration).await;
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

async fn puts_into_redb(path: &Path, duration: Duration) -> f64 {
    let store = RedbStore::open(path, Options::default()).unwrap();
    let writing = store.clone();
    let rate = per_second(duration, move |writer, number| {
        let store = writing.clone();
        async move {
            store.commit(put(format!("/bench/{writer}/{}", number % 100), 1024)).await.unwrap();
        }
    });
    let rate = rate.await;
    row("puts/s, redb, 64 writers of 1 KB", format!("{rate:.0}"));
    store.close().await;
    row("  file after that", format!("{} MB", std::fs::metadata(path).unwrap().len() >> 20));
    rate
}

async fn puts_into_etcd(duration: Duration) -> f64 {
    let server = EtcdServer::start().await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(etcd_client::Client::connect([server.endpoint()], None).await.unwrap());
    }
    let rate = per_second(duration, move |writer, number| {
        let mut client = clients[writer % clients.len()].kv_client();
        async move {
            client.put(format!("/bench/{writer}/{}", number % 100), vec![b'x'; 1024], None).await.unwrap();
        }
    });
    let rate = rate.await;
    row("puts/s, etcd itself, 64 writers of 1 KB", format!("{rate:.0}"));
    let store = server.connect("/bench", Options::default()).await;
    let ours = per_second(duration, move |writer, number| {
        let store = store.clone();
        async move {
            store.commit(put(format!("/{writer}/{}", number % 100), 1024)).await.unwrap();
        }
    });
    row("puts/s, etcd through this store", format!("{:.0}", ours.await));
    rate
}

async fn ranges(path: &Path) {
    const ENTRIES: usize = 10_000;
    let store = RedbStore::open(path, Options::default()).unwrap();
    row("resident memory, empty store", format!("{:.1} MB", resident_megabytes()));
    idle_watches(&store).await;
    for chunk in 0..ENTRIES / 100 {
        let ops =
            (0..100).flat_map(|number| put(format!("/pods/{:05}", chunk * 100 + number), 2700).ops).collect();
        store.commit(Commit { conditions: Vec::new(), ops }).await.unwrap();
    }
    let old = store.revision().await.unwrap();
    store.commit(put("/pods/00000".into(), 2700)).await.unwrap();
    row("resident memory with 10,000 entries of 2.7 KB", format!("{:.1} MB", resident_megabytes()));
    let newest = Range { prefix: "/pods/".into(), ..Range::default() };
    row("range of 10,000 entries of 2.7 KB, newest", median_range(&store, &newest).await);
    let old = Range { revision: Some(old), ..newest.clone() };
    row("  at an older revision, from memory", median_range(&store, &old).await);
    let page = Range { limit: 500, ..newest.clone() };
    row("  a page of 500", median_range(&store, &page).await);
    store.close().await;

    let start = Instant::now();
    let store = RedbStore::open(path, Options { window_events: 0, ..Options::default() }).unwrap();
    row("open with that", format!("{:.1} ms", start.elapsed().as_secs_f64() * 1e3));
    row("  resident memory", format!("{:.1} MB", resident_megabytes()));
    row("range of 10,000 at an older revision, from disk", median_range(&store, &old).await);
}

async fn idle_watches(store: &RedbStore) {
    let mut watches = Vec::new();
    let before = resident_megabytes();
    for number in 0..10_000 {
        watches
            .push(store.watch(&format!("/idle/{number}/"), store.revision().await.unwrap()).await.unwrap());
    }
    let each = (resident_megabytes() - before) * 1e6 / 10_000.0;
    row("an idle watch", format!("{each:.0} bytes"));
}

async fn median_range(store: &RedbStore, range: &Range) -> String {
    let mut times = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        let page = store.range(range.clone()).await.unwrap();
        times.push(start.elapsed());
        drop(page);
    }
    times.sort();
    format!("{:.2} ms", times[times.len() / 2].as_secs_f64() * 1e3)
}

/// One commit after the other; every watcher tells when it has seen it.
async fn watch_latency(path: &Path, watchers: usize, duration: Duration) {
    let store = RedbStore::open(path, Options::default()).unwrap();
    let (seen, mut sightings) = mpsc::unbounded_channel();
    for _ in 0..watchers {
        let watch = store.watch("/pods/", store.revision().await.unwrap()).await.unwrap();
        tokio::spawn(tell_sightings(watch, seen.clone()));
    }
    let (mut acknowledged, mut received) = (Vec::new(), Vec::new());
    let end = Instant::now() + duration;
    while Instant::now() < end {
        let start = Instant::now();
        store.commit(put("/pods/a".into(), 1024)).await.unwrap();
        acknowledged.push(start.elapsed());
        for _ in 0..watchers {
            received.push(sightings.recv().await.unwrap() - start);
        }
    }
    let at = |times: &mut Vec<Duration>, percent: usize| {
        times.sort();
        times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3
    };
    let text = format!(
        "event p50 {:.2} ms, p99 {:.2} ms; answer p50 {:.2} ms",
        at(&mut received, 50),
        at(&mut received, 99),
        at(&mut acknowledged, 50)
    );
    row(&format!("commit until seen by {watchers} watchers (fsync included)"), text);
}

async fn tell_sightings(mut watch: Watch, seen: mpsc::UnboundedSender<Instant>) {
    while let Some(Ok(item)) = watch.next().await {
        if matches!(item, WatchItem::Event(_)) && seen.send(Instant::now()).is_err() {
            return;
        }
    }
}
