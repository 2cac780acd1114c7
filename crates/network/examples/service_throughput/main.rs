//! How much a pod sends to another through a Service, as a share of what it sends to it directly: both in network
//! namespaces behind one bridge, with the rules that an agent makes. Run it as root.

#[allow(dead_code, clippy::unwrap_used, reason = "it is the tests', which use the rest")]
#[path = "../../tests/kernel/lab.rs"]
mod lab;
#[allow(dead_code, reason = "another measurement uses the rest")]
#[path = "../dns_bench/process.rs"]
mod process;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use lab::Lab;
use minik8s_meta::IpFamily;
use minik8s_network::proxy::{plan_service, ruleset};
use nix::sched::{CloneFlags, setns};
use serde_json::json;

const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 7);
const POD: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 3);
const PORT: u16 = 9000;
const ROUNDS: usize = 5;
const EACH: Duration = Duration::from_millis(800);

fn main() -> Result<()> {
    let mut lab = Lab::new(&["node", "p2", "p3"]);
    lab.pod("node", "p2", "10.244.0.1", "10.244.0.2");
    lab.pod("node", "p3", "10.244.0.1", "10.244.0.3");
    lab.nft("node", &rules()?);
    let listener = inside(&lab, "p3", || Ok(TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT))?))?;
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 18];
        for mut stream in listener.incoming().flatten() {
            while matches!(stream.read(&mut buffer), Ok(length) if length > 0) {}
        }
    });
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        direct.push(inside(&lab, "p2", || send(SocketAddrV4::new(POD, PORT)))?);
        through.push(inside(&lab, "p2", || send(SocketAddrV4::new(SERVICE, 80)))?);
    }
    let (direct, through) = (process::median(direct), process::median(through));
    println!("pod to pod {direct:.1} Gbit/s, pod to Service {through:.1} Gbit/s");
    process::verdict("pod to pod, as a multiple of pod to Service", direct / through, "", 1.0 / 0.95);
    Ok(())
}

/// One of several pods would make it a lottery: the Service has one endpoint.
fn rules() -> Result<String> {
    let service = serde_json::from_value(json!({
        "metadata": {"namespace": "bench", "name": "s"},
        "spec": {"clusterIP": SERVICE, "ports": [{"port": 80}]},
    }))?;
    let slice = serde_json::from_value(json!({
        "metadata": {"namespace": "bench", "name": "s-1"}, "addressType": "IPv4", "ports": [{"port": PORT}],
        "endpoints": [{"addresses": [POD]}],
    }))?;
    let routes = plan_service(&service, [&slice].into_iter(), ("node", IpFamily::V4));
    Ok(ruleset(&routes, "minik8s-bench", "10.244.0.0/16".parse()?).to_string())
}

/// Gigabits per second.
fn send(to: SocketAddrV4) -> Result<f64> {
    let mut stream = TcpStream::connect(to)?;
    let buffer = vec![0; 1 << 17];
    let (begun, mut sent) = (Instant::now(), 0_usize);
    while begun.elapsed() < EACH {
        sent += stream.write(&buffer)?;
    }
    Ok(sent as f64 * 8.0 / 1e9 / begun.elapsed().as_secs_f64())
}

/// On a thread of its own, as a thread has one network.
fn inside<T: Send>(lab: &Lab, machine: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let namespace = File::open(format!("/run/netns/{}", lab.namespace(machine)))?;
    let entered = || {
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        work()
    };
    let ended = std::thread::scope(|scope| scope.spawn(entered).join());
    ended.map_err(|_| anyhow!("a thread panicked"))?
}
