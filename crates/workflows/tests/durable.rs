//! A run that is dropped after any of its events goes on to the same end, and asks again for nothing that had ended.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use minik8s_api::{Owner, OwnerVersion, Records, ResourceRef};
use minik8s_asl::definition::{Definition, MachineType};
use minik8s_asl::engine::{Event, Identity, Start, Status};
use minik8s_workflows::engine::{Drive, Means};
use minik8s_workflows::journal::{Beginning, Entry, Journal, JournalError};
use minik8s_workflows::tasks::{Job, Submitted, TaskContext, TaskError, Tasks};
use minik8s_workflows::testing::MemoryRecords;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Check stock, choose, charge with a retry and a catcher, then two at once, then every item.
fn order() -> Value {
    let task = |name: &str| json!({"Type": "Task", "Resource": format!("function:{name}"), "End": true});
    json!({"StartAt": "stock", "States": {
        "stock": {"Type": "Task", "Resource": "function:stock", "ResultPath": "$.stock", "Next": "enough"},
        "enough": {"Type": "Choice", "Choices": [{"Variable": "$.stock", "NumericGreaterThan": 0, "Next": "pause"}], "Default": "none"},
        "none": {"Type": "Fail", "Error": "SoldOut"},
        "pause": {"Type": "Wait", "Seconds": 1, "Next": "charge"},
        "charge": {"Type": "Task", "Resource": "function:charge", "ResultPath": "$.charge", "Next": "both",
            "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1, "MaxAttempts": 3, "JitterStrategy": "FULL"}],
            "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "none"}]},
        "both": {"Type": "Parallel", "ResultPath": "$.both", "Next": "each",
            "Branches": [{"StartAt": "mail", "States": {"mail": task("mail")}}, {"StartAt": "ship", "States": {"ship": task("ship")}}]},
        "each": {"Type": "Map", "ItemsPath": "$.items", "ResultPath": "$.each", "Next": "id",
            "ItemProcessor": {"StartAt": "pack", "States": {"pack": task("pack")}}},
        "id": {"Type": "Pass", "Parameters": {"id.$": "States.UUID()", "all.$": "$"}, "End": true}}})
}

/// Counts calls by idempotency key; the second attempt of `charge` succeeds.
#[derive(Default)]
struct Functions {
    calls: Mutex<BTreeMap<String, usize>>,
}

#[async_trait]
impl Tasks for Functions {
    async fn run(&self, job: &Job, _submitted: Submitted<'_>) -> Result<Value, TaskError> {
        *self.calls.lock().entry(job.idempotency_key()).or_default() += 1;
        let (name, payload) = job.request.function().unwrap();
        match name.as_str() {
            "stock" => Ok(json!(3)),
            "charge" if job.request.attempt == 0 => Err(TaskError::new("Busy", "later")),
            _ => Ok(json!({name: payload.get("items").cloned().unwrap_or(payload)})),
        }
    }
}

struct World {
    records: Arc<MemoryRecords>,
    functions: Arc<Functions>,
    now: Arc<AtomicI64>,
}

impl World {
    fn new() -> Self {
        World { records: Arc::default(), functions: Arc::default(), now: Arc::new(AtomicI64::new(1_000_000)) }
    }

    fn means(&self) -> Means {
        let now = self.now.clone();
        // Time flies: every look at the clock is a second, so that nothing waits for long.
        Means {
            tasks: self.functions.clone(),
            clock: Arc::new(move || now.fetch_add(1000, Ordering::Relaxed)),
        }
    }

    fn context(&self) -> TaskContext {
        TaskContext { namespace: "shop".into(), run: "r".into(), uid: "u".into(), workflow: "w".into() }
    }

    async fn begin(&self) -> Drive {
        let start = Start {
            identity: Identity { execution_name: "r".into(), token_key: "k".into(), ..Identity::default() },
            input: json!({"items": [1, 2, 3]}),
            time: 1_000_000,
            seed: 7,
        };
        let records: Arc<dyn Records> = self.records.clone();
        let object = Owner {
            resource: ResourceRef { group: "minik8s.io", version: "v1", plural: "workflowruns" },
            namespace: "shop",
            name: "r",
        };
        let keep = (records, OwnerVersion { object, revision: 1 });
        let beginning = Beginning { definition: order(), start };
        Drive::begin(self.means(), self.context(), definition(), beginning, Some(keep)).await.unwrap()
    }

    async fn resume(&self) -> Drive {
        let (journal, kept) = Journal::open(self.records.clone(), "u").await.unwrap().unwrap();
        Drive::resume(self.means(), self.context(), definition(), journal, kept)
    }
}

fn definition() -> Definition {
    Definition::from_value(&order(), MachineType::Standard).unwrap()
}

/// Goes on for so many events, or to the end.
async fn go(drive: &mut Drive, events: usize) -> usize {
    let mut taken = 0;
    while taken < events && !drive.is_over() {
        let event = drive.next_event().await;
        drive.take(event, Vec::new()).await.unwrap();
        taken += 1;
    }
    taken
}

/// The order in which tasks end at the same time is chance; a run's output does not depend on it.
fn output(drive: &Drive) -> Value {
    match drive.status() {
        Status::Succeeded { output } => output.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn run_goes_on_to_the_same_end_after_a_crash_at_every_event() {
    let world = World::new();
    let mut whole = world.begin().await;
    let events = go(&mut whole, usize::MAX).await;
    let expected = output(&whole);
    assert_eq!(expected["all"]["each"].as_array().unwrap().len(), 3);
    assert!(events >= 9, "{events}");
    for crash in 0..=events {
        let world = World::new();
        let mut first = world.begin().await;
        go(&mut first, crash).await;
        drop(first);
        let mut second = world.resume().await;
        go(&mut second, usize::MAX).await;
        let found = output(&second);
        assert_eq!(found["all"], expected["all"], "after a crash at event {crash}");
        // Random values are made again, not anew.
        assert_eq!(found["id"], expected["id"]);
        // Only what was under way at the crash is asked for twice: at most the three items of the Map.
        let calls = world.functions.calls.lock();
        let twice = calls.values().filter(|&&count| count > 1).count();
        assert!(twice <= 3 && calls.values().all(|&count| count <= 2), "{calls:?}");
        assert_eq!(calls.len(), 8, "{calls:?}");
    }
}

#[tokio::test]
async fn run_goes_on_after_crashing_again_and_again() {
    let world = World::new();
    drop(world.begin().await);
    let mut rounds = 0;
    loop {
        let mut drive = world.resume().await;
        if go(&mut drive, 1).await == 0 {
            assert_eq!(output(&drive)["all"]["stock"], 3);
            break;
        }
        rounds += 1;
        assert!(rounds < 100);
    }
}

#[tokio::test]
async fn commits_are_one_for_the_start_and_one_for_each_wait() {
    let world = World::new();
    let mut drive = world.begin().await;
    assert_eq!(world.records.commits(), 1);
    let events = go(&mut drive, usize::MAX).await;
    assert_eq!(world.records.commits(), 1 + events as u64);
    // All of it is one record now, and a small one.
    let records = world.records.read("u").await.unwrap();
    assert_eq!(records.len(), 1);
    assert!(records[0].value.len() < 2048, "{}", records[0].value.len());
}

#[tokio::test]
async fn overtaken_journal_writes_nothing() {
    let world = World::new();
    let mut old = world.begin().await;
    let mut new = world.resume().await;
    let event = new.next_event().await;
    new.take(event, Vec::new()).await.unwrap();
    let event = old.next_event().await;
    assert!(matches!(old.take(event, Vec::new()).await, Err(JournalError::Overtaken)));
    go(&mut new, usize::MAX).await;
    output(&new);
    // One that was deleted comes back by nobody.
    let world = World::new();
    let mut drive = world.begin().await;
    world.records.clear();
    let event = drive.next_event().await;
    assert!(matches!(drive.take(event, Vec::new()).await, Err(JournalError::Overtaken)));
    assert!(world.records.read("u").await.unwrap().is_empty());
}

#[tokio::test]
async fn long_history_is_packed_and_read_back() {
    let records: Arc<MemoryRecords> = Arc::default();
    let object = Owner {
        resource: ResourceRef { group: "minik8s.io", version: "v1", plural: "workflowruns" },
        namespace: "shop",
        name: "r",
    };
    let start = Start { identity: Identity::default(), input: json!({}), time: 0, seed: 1 };
    let beginning = Beginning { definition: order(), start };
    let owner = OwnerVersion { object, revision: 1 };
    let mut journal = Journal::begin(records.clone(), "u", owner, beginning).await.unwrap();
    for timer in 0..200 {
        let event = Entry::new(i64::try_from(timer).unwrap(), Event::TimerFired { timer });
        journal.append(event, timer == 199, Vec::new()).await.unwrap();
        if timer == 150 {
            journal = Journal::open(records.clone(), "u").await.unwrap().unwrap().0;
        }
    }
    let stored = records.read("u").await.unwrap();
    assert_eq!(stored.len(), 4, "{:?}", stored.iter().map(|record| &record.name).collect::<Vec<_>>());
    assert_eq!(stored.iter().map(|record| record.value.len()).sum::<usize>(), journal.bytes);
    let (_, kept) = Journal::open(records, "u").await.unwrap().unwrap();
    let timers: Vec<i64> = kept.events.iter().map(|entry| entry.time).collect();
    assert_eq!(timers, (0..200).collect::<Vec<i64>>());
}

#[tokio::test]
async fn redriven_run_goes_on_from_the_failed_state() {
    struct Failing(AtomicI64);
    #[async_trait]
    impl Tasks for Failing {
        async fn run(&self, _job: &Job, _submitted: Submitted<'_>) -> Result<Value, TaskError> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(json!(1)),
                1 => Err(TaskError::new("Broken", "once")),
                _ => Ok(json!(2)),
            }
        }
    }
    let machine = json!({"StartAt": "a", "States": {
        "a": {"Type": "Task", "Resource": "function:a", "Next": "b"},
        "b": {"Type": "Task", "Resource": "function:b", "End": true}}});
    let definition = || Definition::from_value(&machine, MachineType::Standard).unwrap();
    let records: Arc<MemoryRecords> = Arc::default();
    let means = Means { tasks: Arc::new(Failing(AtomicI64::new(0))), clock: Arc::new(|| 5) };
    let context = TaskContext { uid: "u".into(), ..TaskContext::default() };
    let object = Owner {
        resource: ResourceRef { group: "minik8s.io", version: "v1", plural: "workflowruns" },
        namespace: "shop",
        name: "r",
    };
    let start = Start { identity: Identity::default(), input: json!({}), time: 0, seed: 1 };
    let beginning = Beginning { definition: machine.clone(), start };
    let kept: Arc<dyn Records> = records.clone();
    let keep = Some((kept, OwnerVersion { object, revision: 1 }));
    let mut drive =
        Drive::begin(means.clone(), context.clone(), definition(), beginning, keep).await.unwrap();
    go(&mut drive, usize::MAX).await;
    assert!(matches!(drive.status(), Status::Failed { .. }));
    drop(drive);
    let (journal, kept) = Journal::open(records.clone(), "u").await.unwrap().unwrap();
    let mut drive = Drive::resume(means, context, definition(), journal, kept);
    drive.take(Event::Redriven, Vec::new()).await.unwrap();
    go(&mut drive, usize::MAX).await;
    assert_eq!(output(&drive), json!(2));
    assert_eq!(drive.redrives(), 1);
}

/// A task that nobody answers the first time, and what is asked and acknowledged of it.
#[derive(Default)]
struct Keeping {
    asked: Mutex<Vec<(Option<String>, bool)>>,
    acknowledged: Mutex<Vec<(Option<String>, u64)>>,
    records: Arc<MemoryRecords>,
}

#[async_trait]
impl Tasks for Keeping {
    async fn run(&self, job: &Job, _submitted: Submitted<'_>) -> Result<Value, TaskError> {
        self.asked.lock().push((job.result_key.clone(), job.again));
        if !job.again {
            std::future::pending::<()>().await;
        }
        Ok(json!(1))
    }

    fn acknowledge(&self, job: &Job) {
        self.acknowledged.lock().push((job.result_key.clone(), self.records.commits()));
    }
}

#[tokio::test]
async fn result_is_asked_for_again_by_its_key_and_acknowledged_once_durable() {
    let machine =
        json!({"StartAt": "a", "States": {"a": {"Type": "Task", "Resource": "function:a", "End": true}}});
    let definition = || Definition::from_value(&machine, MachineType::Standard).unwrap();
    let tasks: Arc<Keeping> = Arc::default();
    let means = Means { tasks: tasks.clone(), clock: Arc::new(|| 5) };
    let context = TaskContext { uid: "u".into(), ..TaskContext::default() };
    let object = Owner {
        resource: ResourceRef { group: "minik8s.io", version: "v1", plural: "workflowruns" },
        namespace: "shop",
        name: "r",
    };
    let identity = Identity { token_key: "secret".into(), ..Identity::default() };
    let start = Start { identity, input: json!({}), time: 0, seed: 1 };
    let beginning = Beginning { definition: machine.clone(), start };
    let records: Arc<dyn Records> = tasks.records.clone();
    let keep = Some((records.clone(), OwnerVersion { object, revision: 1 }));
    let drive = Drive::begin(means.clone(), context.clone(), definition(), beginning, keep).await.unwrap();
    while tasks.asked.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(drive);
    assert!(tasks.acknowledged.lock().is_empty());
    let (journal, kept) = Journal::open(records, "u").await.unwrap().unwrap();
    let mut drive = Drive::resume(means, context, definition(), journal, kept);
    go(&mut drive, usize::MAX).await;
    assert_eq!(output(&drive), json!(1));
    let asked = tasks.asked.lock().clone();
    let key = asked[0].0.clone();
    assert!(key.as_ref().is_some_and(|key| key.len() == 64 && !key.contains("secret")));
    assert_eq!(asked, [(key.clone(), false), (key.clone(), true)]);
    assert_eq!(*tasks.acknowledged.lock(), [(key, 2)], "after the commit of its end");
}
