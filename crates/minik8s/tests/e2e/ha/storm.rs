//! Three control planes that die, are cut off from etcd and stand still, in an order that a seed decides, while clients
//! of all three read and swap the same objects: what they are told must fit one order that keeps to real time. Others write
//! what is theirs alone: what was acknowledged must be there, once, and one who watches must have seen every change. One of
//! the servers has a clock that is wrong all the time; in the end leaders must still be replaced as quickly as is promised.
//!
//! `SEED` (or `STORM_SEED`) repeats a run, `STORM_MINUTES` makes it longer (`make chaos SERVERS=3 SEED=7 MINUTES=10`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::skew::Skew;
use super::wire::Wire;
use super::{MAPS, Planes, SERVERS, TIMEOUT};
use crate::harness::consistency::history::{self, Operation};
use crate::harness::consistency::registers::{self, Client};
use crate::harness::consistency::version;
use crate::harness::consistency::witness::Witness;
use crate::harness::consistency::writer::Writer;
use crate::harness::seed::seed;

/// The first round is always carried out whole.
const SHORT: Duration = Duration::from_secs(20);
/// What no round is shorter than.
const ROUND: Duration = Duration::from_secs(1);
const WRITER_PAUSE: Duration = Duration::from_millis(30);
const KINDS: [&str; 4] =
    ["kill -9 of a server", "kill -9 of etcd", "a server cut off from etcd", "a server stopped"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// kill -9, and a start.
    Kill(usize),
    /// Nothing passes between it and etcd.
    Cut(usize, Duration),
    /// Its clock and its work stand still.
    Stop(usize, Duration),
    /// kill -9 of etcd, and a start.
    Etcd,
}

impl Fault {
    fn kind(self) -> &'static str {
        match self {
            Fault::Kill(_) => KINDS[0],
            Fault::Etcd => KINDS[1],
            Fault::Cut(..) => KINDS[2],
            Fault::Stop(..) => KINDS[3],
        }
    }
}

/// One seed is one plan, in rounds. The first has every kind of fault.
fn plan(seed: u64, time: Duration) -> Vec<Vec<Fault>> {
    let mut random = seed;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut rounds = Vec::new();
    for round in 0..=time.as_secs() / ROUND.as_secs() {
        let server = below(SERVERS as u64) as usize;
        // Longer than a lease, or not.
        let lasts = Duration::from_millis(500 + below(4500));
        let mut faults = vec![
            Fault::Kill(server),
            Fault::Cut((server + 1) % SERVERS, lasts),
            Fault::Stop((server + 2) % SERVERS, lasts / 2),
        ];
        if round == 0 {
            faults.insert(below(4) as usize, Fault::Etcd);
        }
        rounds.push(faults);
    }
    rounds
}

#[test]
fn storm_seed_is_a_plan() {
    assert_eq!(plan(7, SHORT), plan(7, SHORT));
    assert_ne!(plan(7, SHORT), plan(8, SHORT));
    for seed in 0..50 {
        let kinds: BTreeSet<&str> = plan(seed, SHORT)[0].iter().map(|fault| fault.kind()).collect();
        assert_eq!(kinds, BTreeSet::from(KINDS), "the first round of seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_linearizable_while_servers_die() {
    let seed = seed("STORM_SEED");
    let minutes = std::env::var("STORM_MINUTES").ok();
    let minutes = minutes.map(|text| text.parse::<u64>().expect("a number of minutes"));
    let time = minutes.map_or(SHORT, |minutes| Duration::from_secs(60 * minutes));
    let skew = Skew::from_seed(seed);
    println!("{skew:?}");
    let (mut planes, wires) = Planes::behind_wires(SERVERS, skew).await;
    skew.is_real(&planes).await;
    registers::create(&mut planes.at(0).await).await.unwrap();
    let start = Instant::now();
    let load = Load::start(&planes, start);
    let mut faults: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, round) in plan(seed, time).into_iter().enumerate() {
        for fault in round {
            if number > 0 && start.elapsed() > time {
                break;
            }
            println!("{:5.1} s: {fault:?}", start.elapsed().as_secs_f64());
            carry_out(&mut planes, &wires, fault).await;
            *faults.entry(fault.kind()).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
    assert_eq!(faults.len(), KINDS.len(), "not every kind of fault was carried out: {faults:?}");
    let begun = Instant::now();
    for index in 0..SERVERS {
        serves_or_has_ended(&mut planes, index).await;
    }
    let mut written = [false; SERVERS];
    while written.contains(&false) {
        assert!(begun.elapsed() < TIMEOUT, "not every server takes writes: {written:?}");
        start_who_ended(&mut planes);
        for (index, written) in written.iter_mut().enumerate() {
            *written = writes(&planes, index).await;
        }
    }
    let recovered = begun.elapsed();
    let seen = load.end(&planes).await;
    let lasted = start.elapsed();
    let acknowledged = check_writes(&planes, &seen).await;
    let operations = check(&planes, &seen.clients, start).await;
    let took = skew.hand_over_keeps_its_time(&mut planes).await;
    let row = |what: &str, value: String| println!("  {what:<62}{value:>12}");
    println!("storm: seed {seed}, {SERVERS} servers on one etcd, {:.0} s, {skew:?}", lasted.as_secs_f64());
    for (kind, count) in faults {
        row(kind, count.to_string());
    }
    row("after the last fault every server took writes in", format!("{:.1} s", recovered.as_secs_f64()));
    row("writes acknowledged", acknowledged.to_string());
    row("changes that a watcher saw", seen.witness.events().to_string());
    row("reads and swaps of shared objects", operations.to_string());
    for took in took {
        row("a killed leader was replaced in", format!("{:.1} s", took.as_secs_f64()));
    }
    // Else it would have failed before.
    for never in [
        "writes lost, doubled or changed",
        "gaps, repetitions and wrong ends in what the watcher saw",
        "objects whose history is not linearizable",
    ] {
        row(never, "none".to_owned());
    }
}

/// Clients of all servers, and one that watches.
struct Load {
    clients: Vec<JoinHandle<Client>>,
    writers: Vec<JoinHandle<Writer>>,
    witness: JoinHandle<Witness>,
    /// How far the witness has come.
    progress: watch::Receiver<u64>,
    finish: watch::Sender<bool>,
    enough: watch::Sender<bool>,
}

/// What they were told.
struct Seen {
    clients: Vec<Client>,
    writers: Vec<Writer>,
    witness: Witness,
}

impl Load {
    fn start(planes: &Planes, start: Instant) -> Load {
        let (finish, finished) = watch::channel(false);
        let (enough, seen_enough) = watch::channel(false);
        let at = |id: usize| planes.servers[id % SERVERS].2.clone();
        let reachable = |id: usize| watch::channel(Some((0, at(id)))).1;
        let client = |id: usize| tokio::spawn(Client::new(id, start).run(at(id), finished.clone()));
        let writer = |id: usize| {
            let writer = Writer::new(id).pausing(WRITER_PAUSE);
            tokio::spawn(writer.run(reachable(id), finished.clone()))
        };
        let (clients, writers) = ((0..2 * SERVERS).map(client).collect(), (0..SERVERS).map(writer).collect());
        let witness = Witness::default();
        let progress = witness.progress();
        let witness = tokio::spawn(witness.run(reachable(0), seen_enough));
        Load { clients, writers, witness, progress, finish, enough }
    }

    /// When every server takes writes again.
    async fn end(mut self, planes: &Planes) -> Seen {
        let _ = self.finish.send(true);
        let (mut clients, mut writers) = (Vec::new(), Vec::new());
        for client in self.clients {
            clients.push(client.await.unwrap());
        }
        for writer in self.writers {
            writers.push(writer.await.unwrap());
        }
        // Who has seen this has seen all.
        let body = serde_json::json!({"metadata": {"generateName": "last-"}});
        let made = planes.at(0).await.send(http::Method::POST, MAPS, super::JSON, &body).await.unwrap().1;
        let last = version(&made);
        let seen = tokio::time::timeout(TIMEOUT, self.progress.wait_for(|seen| *seen >= last)).await;
        assert!(seen.is_ok_and(|seen| seen.is_ok()), "the watch has not come to {last}");
        let _ = self.enough.send(true);
        Seen { clients, writers, witness: self.witness.await.unwrap() }
    }
}

/// How many were acknowledged: each is there, once, and was seen.
async fn check_writes(planes: &Planes, seen: &Seen) -> usize {
    let (code, list) = planes.at(0).await.get(MAPS).await.unwrap();
    assert_eq!(code, 200, "{list}");
    for writer in &seen.writers {
        assert_eq!(writer.faults(&list), [""; 0]);
        assert!(writer.acknowledged.len() > 10, "hardly any write: {}", writer.acknowledged.len());
    }
    let versions = seen.writers.iter().flat_map(|writer| writer.acknowledged.iter().copied());
    assert_eq!(seen.witness.faults(&list, versions), [""; 0]);
    seen.writers.iter().map(|writer| writer.acknowledged.len()).sum()
}

async fn carry_out(planes: &mut Planes, wires: &[Wire], fault: Fault) {
    start_who_ended(planes);
    match fault {
        Fault::Kill(index) => {
            planes.servers[index].1.crash();
            planes.start_again(index);
        }
        Fault::Cut(index, lasts) => {
            wires[index].cut();
            tokio::time::sleep(lasts).await;
            wires[index].heal();
            serves_or_has_ended(planes, index).await;
        }
        Fault::Stop(index, lasts) => {
            // One that only just starts would tell little.
            serves_or_has_ended(planes, index).await;
            planes.servers[index].1.signal(Signal::SIGSTOP);
            tokio::time::sleep(lasts).await;
            planes.servers[index].1.signal(Signal::SIGCONT);
            serves_or_has_ended(planes, index).await;
        }
        Fault::Etcd => planes.etcd.restart().await,
    }
}

/// As units do.
fn start_who_ended(planes: &mut Planes) {
    for index in 0..SERVERS {
        if planes.servers[index].1.has_ended() {
            println!("       server {index} has ended and is started again");
            planes.start_again(index);
        }
    }
}

/// Until it answers. It may have ended, as one does that lost its lease, and is then started again: a server that does
/// neither is of no use to anybody, and no unit would notice.
async fn serves_or_has_ended(planes: &mut Planes, index: usize) {
    let begun = Instant::now();
    loop {
        start_who_ended(planes);
        let asked = async { planes.servers[index].2.connect().await?.get("/readyz").await };
        if let Ok(Ok((200, _))) = tokio::time::timeout(Duration::from_secs(1), asked).await {
            return;
        }
        let log = || planes.servers[index].1.log();
        assert!(begun.elapsed() < TIMEOUT, "server {index} neither serves nor ends:\n{}", log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn writes(planes: &Planes, index: usize) -> bool {
    let body = serde_json::json!({"metadata": {"generateName": "after-"}});
    let written = async {
        planes.servers[index].2.connect().await?.send(http::Method::POST, MAPS, super::JSON, &body).await
    };
    matches!(tokio::time::timeout(TIMEOUT, written).await, Ok(Ok((201, _))))
}

/// How many operations there were.
async fn check(planes: &Planes, clients: &[Client], start: Instant) -> usize {
    let mut connection = planes.at(0).await;
    let mut operations = 0;
    for object in 0..registers::OBJECTS {
        let (code, found) = connection.get(&format!("{MAPS}/{}", registers::name(object))).await.unwrap();
        assert_eq!(code, 200, "{found}");
        let of_all = clients.iter().flat_map(|client| client.histories[object].iter().cloned());
        let mut all: Vec<Operation> = of_all.collect();
        all.push(registers::last_read(&found, start));
        operations += all.len();
        if let Err(why) = history::check(&all) {
            panic!("{} is not linearizable: {why}", registers::name(object));
        }
    }
    for (id, client) in clients.iter().enumerate() {
        let done: usize = client.histories.iter().map(Vec::len).sum();
        assert!(done > 10, "client {id} was hardly ever answered: {done}");
    }
    operations
}
