//! Three machines, steady work, and faults at random: afterwards every promise must have been kept.
//!
//! `CHAOS_SEED` repeats a run, `CHAOS_MINUTES` makes it longer (`make chaos SEED=7 MINUTES=10`). What is done, by
//! whom and when depends on the seed alone; what comes of it also on the machine. Needs root, containerd and kubectl.

#![allow(clippy::unwrap_used)]

mod faults;
mod history;
#[path = "../lab/lab.rs"]
#[allow(dead_code)]
mod lab;
mod leaks;
mod registers;
#[path = "../crash/server.rs"]
#[allow(dead_code)]
mod server;
mod summary;
mod traffic;
#[path = "../crash/witness.rs"]
#[allow(dead_code)]
mod witness;
mod work;
#[path = "../crash/writer.rs"]
mod writer;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;

use crate::faults::{NODES, Step};
use crate::history::Operation;
use crate::lab::Lab;
use crate::server::Credentials;
use crate::summary::Summary;
use crate::traffic::Failure;
use crate::witness::Witness;
use crate::writer::Writer;

const NAMESPACE: &str = "/api/v1/namespaces/chaos/configmaps";
const WRITERS: usize = 2;
const SWAPPERS: usize = 3;
/// How long the short run makes trouble.
const SHORT: Duration = Duration::from_secs(24);
/// So long after a fault a pod may still be dying of it: until the node counts as dead, its pods are elsewhere, and
/// those that were cut off are told.
const AFTERMATH: Duration = Duration::from_secs(10);

/// The server's address stays the same; the number would tell restarts apart.
type Reachable = watch::Receiver<Option<(u32, Credentials)>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chaos() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("CHAOS_SEED").unwrap_or(1);
    let time = number("CHAOS_MINUTES").map_or(SHORT, |minutes| Duration::from_secs(60 * minutes));
    println!("seed {seed}, {time:?} of faults");
    let lab = Lab::up_with(NODES, &[("LAB_DATA_MB", "192")]);
    let nodes: Vec<String> = (1..=NODES).map(|number| format!("node{number}")).collect();
    lab.until("all nodes are ready", || lab.ready() == nodes);
    let port = work::set_up(&lab);
    let credentials =
        Credentials::read(&lab.dir, format!("{}:6443", lab.address(1)).parse().unwrap()).unwrap();
    registers::create(&mut credentials.connect().await.unwrap()).await.unwrap();

    let start = Instant::now();
    let (_announce, reachable) = watch::channel(Some((0, credentials.clone())));
    let (finish, finished) = watch::channel(false);
    let witness = tokio::spawn(Witness::default().run(reachable.clone(), finished.clone()));
    let pause = Duration::from_millis(30);
    let writers: Vec<_> = (0..WRITERS)
        .map(|id| tokio::spawn(Writer::new(id).pausing(pause).run(reachable.clone(), finished.clone())))
        .collect();
    let swappers: Vec<_> = (0..SWAPPERS)
        .map(|id| tokio::spawn(registers::Client::new(id, start).run(credentials.clone(), finished.clone())))
        .collect();
    let address: SocketAddr = format!("{}:{port}", lab.address(1)).parse().unwrap();
    let traffic = tokio::spawn(traffic::run(address, finished.clone()));
    let rollouts = tokio::spawn(work::roll_out(credentials.clone(), finished.clone()));

    let (lab, done) = make_trouble(lab, faults::plan(seed, time)).await;
    println!("faults are over after {:?}", start.elapsed());
    let calm = Instant::now();
    lab.until("all nodes are ready again", || lab.ready() == nodes);
    let _ = finish.send(true);
    let rollouts = rollouts.await.unwrap();
    lab.until("the last rollout is complete", || work::is_complete(&lab));
    let mut summary = Summary::new(seed, time, &done);
    summary.settled(calm.elapsed());
    summary.row("rollouts asked for and acknowledged", rollouts.to_string());

    let mut all = Vec::new();
    for writer in writers {
        all.push(writer.await.unwrap());
    }
    let witness = witness.await.unwrap();
    let mut connection = credentials.connect().await.unwrap();
    let (_, list) = connection.get(NAMESPACE).await.unwrap();
    check_writes(&mut summary, &all, &witness, &list);
    let mut clients = Vec::new();
    for swapper in swappers {
        clients.push(swapper.await.unwrap());
    }
    check_histories(&mut summary, &clients, &list, start);
    check_traffic(&mut summary, traffic.await.unwrap(), &done);
    check_leaks(&mut summary, &lab).await;
    lab.run(&["down"]);
    summary.check("what the lab itself left behind", lab.traces());
    println!("{summary}");
    assert!(summary.is_good(), "seed {seed}: see the table");
}

/// One fault after the other. Each is known by when it began and ended.
async fn make_trouble(lab: Lab, steps: Vec<Step>) -> (Lab, Vec<(Step, Instant, Instant)>) {
    let work = move || {
        let mut done = Vec::new();
        for step in steps {
            println!("{:?} for {:?}", step.fault, step.lasts);
            let begun = Instant::now();
            faults::carry_out(&lab, step);
            done.push((step, begun, Instant::now()));
            std::thread::sleep(step.then);
        }
        (lab, done)
    };
    tokio::task::spawn_blocking(work).await.unwrap()
}

fn check_writes(summary: &mut Summary, writers: &[Writer], witness: &Witness, list: &Value) {
    let acknowledged: usize = writers.iter().map(|writer| writer.acknowledged.len()).sum();
    summary.row("writes acknowledged", acknowledged.to_string());
    let lost = writers.iter().flat_map(|writer| writer.faults(list)).collect();
    summary.check("of them lost, doubled or changed", lost);
    summary.row("changes that a watcher saw", witness.events().to_string());
    let versions = writers.iter().flat_map(|writer| writer.acknowledged.iter().copied());
    summary.check("gaps, repetitions and wrong ends in what it saw", witness.faults(list, versions));
    summary.check("too little was done", if acknowledged > 50 { vec![] } else { vec!["writes".to_owned()] });
}

fn check_histories(summary: &mut Summary, clients: &[registers::Client], list: &Value, start: Instant) {
    let found = by_name(list);
    let mut wrong = Vec::new();
    let mut operations = 0;
    for object in 0..registers::OBJECTS {
        let mut history: Vec<Operation> =
            clients.iter().flat_map(|client| client.histories[object].iter().cloned()).collect();
        history.push(registers::last_read(&found[&registers::name(object)], start));
        operations += history.len();
        wrong.extend(history::check(&history).err().map(|why| format!("{}: {why}", registers::name(object))));
    }
    summary.row("reads and swaps of shared objects", operations.to_string());
    summary.check("objects whose history is not linearizable", wrong);
}

/// Clients may notice that pods die, and nothing else.
fn check_traffic(summary: &mut Summary, report: traffic::Report, done: &[(Step, Instant, Instant)]) {
    let may_die = |from: Instant, until: Instant| {
        let mut deadly = done.iter().filter(|(step, ..)| step.fault.touches_pods());
        deadly.any(|(_, begun, ended)| *begun <= until && from <= *ended + AFTERMATH)
    };
    let (dying, other): (Vec<&Failure>, Vec<&Failure>) =
        report.failures.iter().partition(|failure| may_die(failure.begun, failure.ended));
    let calm = report.answered.iter().filter(|asked| !may_die(**asked, **asked)).count();
    summary.row("requests to a Service answered", report.answered.len().to_string());
    summary.row("of them while no pod had a reason to die", calm.to_string());
    summary.row("failed while pods died", dying.len().to_string());
    summary.check("failed for no such reason", other.iter().map(|failure| failure.why.clone()).collect());
    let enough = report.answered.len() > 100;
    summary.check("too few requests", if enough { vec![] } else { vec![report.answered.len().to_string()] });
}

async fn check_leaks(summary: &mut Summary, lab: &Lab) {
    let begun = Instant::now();
    let mut found = leaks::find(lab, NODES).await;
    // What has just been replaced may take a moment to go.
    while !found.is_empty() && begun.elapsed() < lab::PATIENCE {
        tokio::time::sleep(Duration::from_millis(500)).await;
        found = leaks::find(lab, NODES).await;
    }
    summary.check("containers, addresses, cgroups, mounts, rules that are no pod's", found);
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a version")
}

/// `metadata.name` to the whole object.
fn by_name(list: &Value) -> BTreeMap<String, Value> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .map(|item| (item["metadata"]["name"].as_str().unwrap_or_default().to_owned(), item.clone()))
        .collect()
}
