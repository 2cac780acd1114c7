//! Three control planes that die, are cut off from etcd and stand still, in an order that a seed decides, while clients
//! of all three read and swap the same objects: what they are told must fit one order that keeps to real time. One of
//! them has a clock that is wrong all the time; in the end leaders must still be replaced as quickly as is promised.
//!
//! `SEED` (or `STORM_SEED`) repeats a run.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::watch;

use super::skew::Skew;
use super::wire::Wire;
use super::{MAPS, Planes, SERVERS, TIMEOUT, eventually};
use crate::harness::consistency::history::{self, Operation};
use crate::harness::consistency::registers::{self, Client};
use crate::harness::seed::seed;

const TIME: Duration = Duration::from_secs(20);
/// After this long a server that does not answer has ended, as one does that lost its lease: its unit starts it again.
const ANSWER: Duration = Duration::from_secs(4);

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

/// One seed is one plan.
fn plan(seed: u64) -> Vec<Fault> {
    let mut random = seed;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut faults = Vec::new();
    for round in 0..5 {
        let server = below(SERVERS as u64) as usize;
        // Longer than a lease, or not.
        let lasts = Duration::from_millis(500 + below(4500));
        faults.push(Fault::Kill(server));
        faults.push(Fault::Cut((server + 1) % SERVERS, lasts));
        faults.push(Fault::Stop((server + 2) % SERVERS, lasts / 2));
        if round == 1 {
            faults.push(Fault::Etcd);
        }
    }
    faults
}

#[test]
fn storm_seed_is_a_plan() {
    assert_eq!(plan(7), plan(7));
    assert_ne!(plan(7), plan(8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_linearizable_while_servers_die() {
    let seed = seed("STORM_SEED");
    let skew = Skew::from_seed(seed);
    println!("{skew:?}");
    let (mut planes, wires) = Planes::behind_wires(SERVERS, skew).await;
    skew.is_real(&planes).await;
    registers::create(&mut planes.at(0).await).await.unwrap();
    let start = Instant::now();
    let (finish, finished) = watch::channel(false);
    let clients: Vec<_> = (0..2 * SERVERS)
        .map(|id| {
            let credentials = planes.servers[id % SERVERS].2.clone();
            tokio::spawn(Client::new(id, start).run(credentials, finished.clone()))
        })
        .collect();
    for fault in plan(seed) {
        if start.elapsed() > TIME {
            break;
        }
        println!("{:5.1} s: {fault:?}", start.elapsed().as_secs_f64());
        carry_out(&mut planes, &wires, fault).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    for index in 0..SERVERS {
        if !answers(&planes, index).await {
            planes.servers[index].1.crash();
            planes.restart(index).await;
        }
    }
    let begun = Instant::now();
    eventually("a write at each server", async || {
        let mut written = 0;
        for index in 0..SERVERS {
            written += usize::from(writes(&planes, index).await);
        }
        written == SERVERS
    })
    .await;
    println!("all servers took writes {:?} after the last fault", begun.elapsed());
    let _ = finish.send(true);
    let mut ended = Vec::new();
    for client in clients {
        ended.push(client.await.unwrap());
    }
    check(&planes, &ended, start).await;
    skew.hand_over_keeps_its_time(&mut planes).await;
}

async fn carry_out(planes: &mut Planes, wires: &[Wire], fault: Fault) {
    match fault {
        Fault::Kill(index) => {
            planes.servers[index].1.crash();
            planes.start_again(index);
        }
        Fault::Cut(index, lasts) => {
            wires[index].cut();
            tokio::time::sleep(lasts).await;
            wires[index].heal();
            start_if_it_ended(planes, index).await;
        }
        Fault::Stop(index, lasts) => {
            if !answers(planes, index).await {
                return;
            }
            planes.servers[index].1.signal(Signal::SIGSTOP);
            tokio::time::sleep(lasts).await;
            planes.servers[index].1.signal(Signal::SIGCONT);
            start_if_it_ended(planes, index).await;
        }
        Fault::Etcd => planes.etcd.restart().await,
    }
}

async fn start_if_it_ended(planes: &mut Planes, index: usize) {
    if !answers(planes, index).await {
        planes.servers[index].1.crash();
        planes.start_again(index);
    }
}

async fn answers(planes: &Planes, index: usize) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < ANSWER {
        let asked = async { planes.servers[index].2.connect().await?.get("/readyz").await };
        if let Ok(Ok((200, _))) = tokio::time::timeout(Duration::from_secs(1), asked).await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

async fn writes(planes: &Planes, index: usize) -> bool {
    let body = serde_json::json!({"metadata": {"generateName": "after-"}});
    let written = async {
        planes.servers[index].2.connect().await?.send(http::Method::POST, MAPS, super::JSON, &body).await
    };
    matches!(tokio::time::timeout(TIMEOUT, written).await, Ok(Ok((201, _))))
}

async fn check(planes: &Planes, clients: &[Client], start: Instant) {
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
    println!("{operations} reads and swaps fit one order");
    for (id, client) in clients.iter().enumerate() {
        let done: usize = client.histories.iter().map(Vec::len).sum();
        assert!(done > 10, "client {id} was hardly ever answered: {done}");
    }
}
