//! Random histories with watchers that come and go, compared with the model.

use std::sync::Arc;

use minik8s_store::{
    Commit, Condition, Error, Event, Op, Options, Outcome, Range, Revision, Store, Watch, WatchItem,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::model::{Model, in_order};
use super::{Lab, soon};

const KEYS: [&str; 7] = ["/a/0", "/a/1", "/a/2", "/a/20", "/b/0", "/b/1", "/c"];
const PREFIXES: [&str; 6] = ["", "/", "/a/", "/a/2", "/b/", "/none"];

#[derive(Debug, Clone)]
enum Step {
    Commit { ops: Vec<(usize, Option<u8>)>, guard: Guard },
    Watch { prefix: usize, back: u64 },
    Read { prefix: usize, back: u64, after: Option<usize>, limit: usize },
    Compact { back: u64 },
}

#[derive(Debug, Clone, Copy)]
enum Guard {
    None,
    Right,
    Absent,
    Wrong,
}

fn step() -> impl Strategy<Value = Step> {
    let ops = prop::collection::vec((0..KEYS.len(), prop::option::weighted(0.7, any::<u8>())), 1..4);
    let guard = prop_oneof![Just(Guard::None), Just(Guard::Right), Just(Guard::Absent), Just(Guard::Wrong)];
    let prefix = 0..PREFIXES.len();
    let read = (prefix.clone(), 0..12_u64, prop::option::of(0..KEYS.len()), 0..4_usize);
    prop_oneof![
        8 => (ops, guard).prop_map(|(ops, guard)| Step::Commit { ops, guard }),
        3 => (prefix, 0..20_u64).prop_map(|(prefix, back)| Step::Watch { prefix, back }),
        3 => read.prop_map(|(prefix, back, after, limit)| Step::Read { prefix, back, after, limit }),
        1 => (0..20_u64).prop_map(|back| Step::Compact { back }),
    ]
}

/// So small that most watches and reads must go beyond it.
fn window() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), Just(1), Just(5), Just(1000)]
}

fn run<L: Lab, S: Strategy>(lab: &L, cases: S, check: impl AsyncFn(&L, S::Value)) {
    let config = Config { cases: lab.cases(), failure_persistence: None, ..Config::default() };
    tokio::task::block_in_place(|| {
        let result = TestRunner::new(config).run(&cases, |case| {
            Handle::current().block_on(check(lab, case));
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    });
}

pub async fn random_histories_match_the_model(lab: &impl Lab) {
    run(lab, (prop::collection::vec(step(), 1..60), window()), async |lab, (steps, window_events)| {
        let store = lab.store(Options { window_events, ..Options::default() }).await;
        let mut check = Check::new(store).await;
        for step in steps {
            check.step(step).await;
        }
        check.finish().await;
    });
}

struct Check {
    store: Arc<dyn Store>,
    model: Model,
    first: Revision,
    compacted: Revision,
    watchers: Vec<Watcher>,
}

impl Check {
    async fn new(store: Arc<dyn Store>) -> Self {
        let first = store.revision().await.unwrap();
        Check { store, model: Model::new(first), first, compacted: first, watchers: Vec::new() }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Commit { ops, guard } => {
                let commit = self.commit(ops, guard);
                let expected = self.model.commit(&commit);
                assert_eq!(self.store.commit(commit).await.unwrap(), expected);
            }
            Step::Watch { prefix, back } => {
                let after = self.back(back);
                match self.store.watch(PREFIXES[prefix], after).await {
                    Ok(watch) => {
                        self.watchers.push(Watcher::new(&self.store, watch, PREFIXES[prefix], after))
                    }
                    Err(Error::Compacted { .. }) => assert!(after < self.compacted),
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Read { prefix, back, after, limit } => {
                let revision = Some(self.back(back)).filter(|_| back > 0);
                let after = after.map(|key| KEYS[key].to_owned());
                let range = Range { prefix: PREFIXES[prefix].into(), after, limit, revision };
                match self.store.range(range.clone()).await {
                    Ok(mut page) => {
                        let expected = self.model.page(&range);
                        page.remaining = page.remaining.or(expected.remaining);
                        assert_eq!(page, expected, "{range:?}");
                    }
                    Err(Error::Compacted { .. }) => assert!(revision.unwrap() < self.compacted),
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Compact { back } => {
                let revision = self.back(back);
                match self.store.compact(revision).await {
                    Ok(()) => self.compacted = self.compacted.max(revision),
                    Err(Error::Compacted { .. }) => assert!(revision <= self.compacted),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn commit(&self, ops: Vec<(usize, Option<u8>)>, guard: Guard) -> Commit {
        let key = KEYS[ops[0].0].to_owned();
        let current = self.model.get(&key).map_or(0, |entry| entry.revision);
        let revision = match guard {
            Guard::None => None,
            Guard::Right => Some(current),
            Guard::Absent => Some(0),
            Guard::Wrong => Some(current + 1),
        };
        let conditions = revision.map(|revision| Condition { key, revision }).into_iter().collect();
        Commit { conditions, ops: ops.into_iter().map(op).collect() }
    }

    fn back(&self, back: u64) -> Revision {
        self.model.revision().saturating_sub(back).max(self.first)
    }

    async fn finish(self) {
        assert_eq!(self.store.revision().await.unwrap(), self.model.revision());
        for watcher in self.watchers {
            watcher.finish(&self.model, self.compacted).await;
        }
    }
}

fn op((key, value): (usize, Option<u8>)) -> Op {
    let key = KEYS[key].to_owned();
    match value {
        Some(value) => Op::Put { key, value: vec![value; 1 + usize::from(value)].into() },
        None => Op::Delete { key },
    }
}

/// Reads a watch on its own task until told that nothing more will be written.
struct Watcher {
    prefix: &'static str,
    after: Revision,
    stop: oneshot::Sender<()>,
    seen: JoinHandle<(Vec<Event>, Option<Error>)>,
}

impl Watcher {
    fn new(store: &Arc<dyn Store>, watch: Watch, prefix: &'static str, after: Revision) -> Self {
        let (stop, stopped) = oneshot::channel();
        let seen = tokio::spawn(collect(store.clone(), watch, after, stopped));
        Watcher { prefix, after, stop, seen }
    }

    async fn finish(self, model: &Model, compacted: Revision) {
        let _ = self.stop.send(());
        let (seen, error) = soon("a watcher", self.seen).await.unwrap();
        let mut expected = model.events(self.prefix, self.after);
        if let Some(error) = error {
            assert!(matches!(error, Error::Compacted { .. }) && self.after < compacted, "{error}");
            expected.truncate(seen.len());
        }
        assert_eq!(in_order(seen), expected, "{:?} after {}", self.prefix, self.after);
    }
}

async fn collect(
    store: Arc<dyn Store>,
    mut watch: Watch,
    mut reached: Revision,
    mut stopped: oneshot::Receiver<()>,
) -> (Vec<Event>, Option<Error>) {
    let mut events = Vec::new();
    let mut newest = None;
    loop {
        let item = tokio::select! {
            item = watch.next() => item.expect("the store is open"),
            _ = &mut stopped, if newest.is_none() => {
                newest = Some(store.request_progress(&watch).await.expect("asking for progress"));
                continue;
            }
        };
        match item {
            Ok(WatchItem::Event(event)) => {
                assert!(event.revision >= reached, "{event:?} after progress to {reached}");
                events.push((*event).clone());
            }
            Ok(WatchItem::Progress(revision)) => {
                assert!(revision >= reached, "progress to {revision} after {reached}");
                reached = revision + 1;
                if newest.is_some_and(|newest| revision >= newest) {
                    return (events, None);
                }
            }
            Err(error) => return (events, Some(error)),
        }
    }
}

pub async fn concurrent_histories_match_the_model(lab: &impl Lab) {
    let op = (0..KEYS.len(), prop::option::weighted(0.7, any::<u8>()));
    let writer = prop::collection::vec((op, any::<bool>()), 1..25);
    let writers = prop::collection::vec(writer, 2..6);
    let watchers = prop::collection::vec((0..PREFIXES.len(), 0..10_u64), 0..8);
    run(lab, (writers, watchers, window()), async |lab, (writers, watchers, window_events)| {
        let store = lab.store(Options { window_events, ..Options::default() }).await;
        let first = store.revision().await.unwrap();
        let writers: Vec<_> =
            writers.into_iter().map(|steps| tokio::spawn(write(store.clone(), steps))).collect();
        let mut watching = Vec::new();
        for (prefix, back) in watchers {
            let after = store.revision().await.unwrap().saturating_sub(back).max(first);
            let watch = store.watch(PREFIXES[prefix], after).await.unwrap();
            watching.push(Watcher::new(&store, watch, PREFIXES[prefix], after));
            tokio::task::yield_now().await;
        }
        let mut commits = Vec::new();
        for writer in writers {
            commits.extend(writer.await.unwrap());
        }
        commits.sort_by_key(|(revision, _)| *revision);
        let mut model = Model::new(first);
        for (revision, commit) in commits {
            assert_eq!(model.commit(&commit), Outcome::Committed(revision));
        }
        for watcher in watching {
            watcher.finish(&model, 0).await;
        }
        let page = store.range(Range::default()).await.unwrap();
        assert_eq!(page.entries, model.page(&Range::default()).entries);
    });
}

/// Every commit of these changes something, so that revisions tell their order.
async fn write(store: Arc<dyn Store>, steps: Vec<((usize, Option<u8>), bool)>) -> Vec<(Revision, Commit)> {
    let mut commits = Vec::new();
    for ((key, value), guarded) in steps {
        let found = store.get(KEYS[key]).await.unwrap().map_or(0, |entry| entry.revision);
        if value.is_none() && found == 0 {
            continue;
        }
        let guard = Condition { key: KEYS[key].into(), revision: found };
        let conditions = if guarded || value.is_none() { vec![guard] } else { Vec::new() };
        let commit = Commit { conditions, ops: vec![op((key, value))] };
        if let Outcome::Committed(revision) = store.commit(commit.clone()).await.unwrap() {
            commits.push((revision, commit));
        }
    }
    commits
}
