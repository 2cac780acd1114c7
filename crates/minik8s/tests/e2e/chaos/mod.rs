//! Three machines, steady work, and faults at random: afterwards every promise must have been kept.
//!
//! Each run has a seed of its own, which it prints; `SEED=n` (or `CHAOS_SEED`) repeats one. `CHAOS_LOGS` names a directory
//! for the nodes' logs, `CHAOS_MINUTES` makes it longer (`make chaos SEED=7 MINUTES=10`). What is done, by whom and when
//! depends on the seed alone; what comes of it also on the machine. Needs root, containerd and kubectl.

mod away;
mod expected_failures;
mod faults;
mod latency;
mod leaks;
mod lookup;
mod paths;
mod reach;
mod sight;
mod solo;
mod summary;
mod traffic;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::watch;

use away::Spans;
use expected_failures::{Evidence, Reason};
use faults::{Done, Fault, NODES, Step};
use latency::Latency;
use paths::Paths;
use sight::{Listed, Lives, Seen};
use solo::Solo;
use summary::Summary;
use traffic::{Report, Way};

use crate::harness::consistency::history::{self, Operation};
use crate::harness::consistency::witness::Witness;
use crate::harness::consistency::writer::Writer;
use crate::harness::consistency::{MAPS, by_name, registers};
use crate::harness::control_plane::Credentials;
use crate::harness::lab::{self, Lab};
use crate::harness::seed::seed;

const WRITERS: usize = 2;
const SWAPPERS: usize = 3;
/// How long the short run makes trouble.
const SHORT: Duration = Duration::from_secs(24);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chaos() {
    let seed = seed("CHAOS_SEED");
    let minutes =
        std::env::var("CHAOS_MINUTES").ok().map(|text| text.parse::<u64>().expect("a number of minutes"));
    let time = minutes.map_or(SHORT, |minutes| Duration::from_secs(60 * minutes));
    let lab = Lab::up_with(NODES, &[("LAB_DATA_MB", "192")]);
    let nodes: Vec<String> = (1..=NODES).map(|number| format!("node{number}")).collect();
    lab.until("all nodes are ready", || lab.ready() == nodes);
    let target = work::set_up(&lab);
    let credentials =
        Credentials::read(&lab.dir, format!("{}:6443", lab.address(1)).parse().unwrap()).unwrap();
    registers::create(&mut credentials.connect().await.unwrap()).await.unwrap();

    let solo = Solo::watch(lab.name());
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
    let paths = Arc::new(Paths::to([traffic::PORT, target.node_port]));
    for node in 1..=NODES {
        paths.follow(node, &lab.namespace(&format!("node{node}")));
    }
    let traffic: Vec<_> =
        Way::all().map(|way| (way, traffic::start(way, &lab, target, finished.clone()))).collect();
    let (enough, seen_enough) = watch::channel(false);
    let pods = sight::follow(sight::PODS, Lives::default(), credentials.clone(), seen_enough.clone());
    let pods = tokio::spawn(pods);
    let slices = sight::follow(sight::SLICES, Listed::default(), credentials.clone(), seen_enough);
    let slices = tokio::spawn(slices);
    let rollouts = tokio::spawn(work::roll_out(credentials.clone(), finished.clone()));

    let (lab, done) = make_trouble(lab, faults::plan(seed, time), paths.clone()).await;
    println!("faults are over after {:?}", start.elapsed());
    let calm = Instant::now();
    lab.until("all nodes are ready again", || lab.ready() == nodes);
    let asked = (start, Instant::now());
    let _ = finish.send(true);
    let rollouts = rollouts.await.unwrap();
    lab.until("the last rollout is complete", || work::is_complete(&lab));
    let mut summary = Summary::new(seed, time, &done);
    summary.settled(calm.elapsed());
    summary.row("rollouts asked for and acknowledged", rollouts.to_string());
    let (ways, wrong) = reach::check(&lab, target);
    summary.row("ways to the Service, from every node, afterwards", ways.to_string());
    summary.check("of them that lead nowhere", wrong);

    let mut all = Vec::new();
    for writer in writers {
        all.push(writer.await.unwrap());
    }
    let witness = witness.await.unwrap();
    let mut connection = credentials.connect().await.unwrap();
    let (_, list) = connection.get(MAPS).await.unwrap();
    check_writes(&mut summary, &all, &witness, &list);
    let mut clients = Vec::new();
    for swapper in swappers {
        clients.push(swapper.await.unwrap());
    }
    check_histories(&mut summary, &clients, &list, start);
    let ended = tokio::task::spawn_blocking(|| {
        traffic.into_iter().map(|(way, client)| (way, client.join().unwrap())).collect()
    });
    let reports: Vec<(Way, Report)> = ended.await.unwrap();
    let _ = enough.send(true);
    let (pods, slices) = (pods.await.unwrap(), slices.await.unwrap());
    check_traffic(&mut summary, &reports, &paths, asked, |way| {
        Evidence::of(way, &pods.by.0, &slices.by.spans, &done, &unseen(&pods, &slices, &done))
    });
    check_solo(&mut summary, solo.end());
    check_leaks(&mut summary, &lab).await;
    if let Ok(directory) = std::env::var("CHAOS_LOGS") {
        lab.keep_logs(std::path::Path::new(&directory));
    }
    lab.run(&["down"]);
    summary.check("what the lab itself left behind", lab.traces());
    println!("{summary}");
    assert!(summary.is_good(), "seed {seed}: see the table");
}

/// When nobody told us anything: we were not connected, or the server could not be reached or take note of anything.
fn unseen(pods: &Seen<Lives>, slices: &Seen<Listed>, done: &[Done]) -> Spans {
    let is_dumb = |done: &&Done| matches!(done.step.fault, Fault::FullDisk | Fault::Cut(1) | Fault::Crash(1));
    let mut unseen = [pods.blind.as_slice(), &slices.blind].concat();
    unseen.extend(done.iter().filter(is_dumb).map(|done| (done.begun, done.ended)));
    unseen.sort();
    unseen
}

/// One fault after the other.
async fn make_trouble(lab: Lab, steps: Vec<Step>, paths: Arc<Paths>) -> (Lab, Vec<Done>) {
    let work = move || {
        let mut done = Vec::new();
        let start = Instant::now();
        for step in steps {
            println!("{:6.1} s: {:?} for {:?}", start.elapsed().as_secs_f64(), step.fault, step.lasts);
            done.push(faults::carry_out(&lab, step));
            if let Fault::Crash(node) = step.fault {
                // It has another network now.
                paths.follow(node, &lab.namespace(&format!("node{node}")));
            }
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

/// Clients may see that the pod dies with which they speak, or their own node, and nothing else.
fn check_traffic(
    summary: &mut Summary,
    reports: &[(Way, Report)],
    paths: &Paths,
    asked: (Instant, Instant),
    evidence: impl Fn(Way) -> Evidence,
) {
    let (mut away, mut dead, mut other, mut slow) = (0, Vec::new(), Vec::new(), Vec::new());
    summary.row("requests by way: answered, p50, p99, longest silence", String::new());
    for (way, report) in reports {
        let evidence = evidence(*way);
        for failure in &report.failures {
            let led_to = paths.from(way.node, failure.port, failure.begun, failure.ended);
            match evidence.expected(failure, &led_to) {
                Ok(Reason::Away) => away += 1,
                Ok(Reason::Dead(since)) => dead.push(since),
                Err(why) => other.push(format!("{way}: {why}, {}", evidence.when(failure))),
            }
        }
        let latency = Latency::of(*way, report, &evidence, paths, asked);
        slow.extend(latency.faults().into_iter().map(|fault| format!("{way}: {fault}")));
        summary.row(&format!("  {way}"), latency.to_string());
    }
    summary.row("failed while their own node was cut off, off or starting", away.to_string());
    summary.row("failed since the pod died to which they were led", dead.len().to_string());
    let longest = dead.iter().max().copied().unwrap_or_default();
    summary.row("a dead pod was still asked after at most", format!("{:.1} s", longest.as_secs_f64()));
    summary.check("failed for no such reason", other);
    summary.check("ways that were slow or silent for no such reason", slow);
}

fn check_solo(summary: &mut Summary, seen: solo::Sightings) {
    summary.row("processes of StatefulSet pods, one after the other", seen.processes.to_string());
    summary.check("StatefulSet pods that ran twice at once", seen.doubles);
    let enough = seen.processes >= 2;
    summary.check("none of them seen", if enough { vec![] } else { vec![seen.processes.to_string()] });
}

async fn check_leaks(summary: &mut Summary, lab: &Lab) {
    let begun = Instant::now();
    let mut found = leaks::find(lab, NODES).await;
    // What has just been replaced may take a moment to go.
    while !found.is_empty() && begun.elapsed() < lab::TIMEOUT {
        tokio::time::sleep(Duration::from_millis(500)).await;
        found = leaks::find(lab, NODES).await;
    }
    summary.check("containers, addresses, cgroups, mounts, rules that are no pod's", found);
}
