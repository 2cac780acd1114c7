//! CPU per DNS query of the agent's resolver and of Unbound, side by side: both know the same names, and the same
//! client asks both, for a few seconds each, in turns. Without Unbound (Debian's `unbound`) only the resolver is
//! measured.

#[allow(dead_code, reason = "another measurement uses the rest")]
mod process;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use minik8s_network::dns::{Data, Record, Resolver, Upstreams, Zone, question};
use minik8s_network::metrics::DnsMetrics;
use parking_lot::RwLock;
use process::{Process, free_port, is_installed, median, verdict};

const NAMES: u16 = 1000;
const DOMAIN: &str = "cluster.local";
/// Questions on their way at a time.
const WINDOW: usize = 32;
const ROUNDS: usize = 3;
const EACH: Duration = Duration::from_millis(1500);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => compare(),
        ["resolver", port] => resolver(port.parse()?),
        other => bail!("unknown arguments {other:?}"),
    }
}

fn compare() -> Result<()> {
    let (own, theirs) = (free_port()?, free_port()?);
    let resolver =
        Process::start(Command::new(std::env::current_exe()?).args(["resolver", &own.to_string()]))?;
    let directory = std::env::temp_dir().join(format!("minik8s-dns-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let file = directory.join("unbound.conf");
    std::fs::write(&file, unbound_conf(theirs))?;
    let unbound = match is_installed("unbound", "-V") {
        true => Some(Process::start(Command::new("unbound").arg("-d").arg("-c").arg(&file))?),
        false => None,
    };
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(measure(own, &resolver)?);
        if let Some(unbound) = &unbound {
            others.push(measure(theirs, unbound)?);
        }
    }
    std::fs::remove_file(&file)?;
    std::fs::remove_dir(&directory)?;
    let ours = median(ours);
    println!("resolver: {ours:.2} µs of CPU per query");
    if others.is_empty() {
        println!("unbound is not installed: nothing to compare with");
        return Ok(());
    }
    let others = median(others);
    println!("unbound:  {others:.2} µs of CPU per query");
    verdict("DNS: CPU per query, as a multiple of Unbound's", ours / others, "", 2.0);
    Ok(())
}

fn name(number: u16) -> String {
    format!("service-{number}.default.svc.{DOMAIN}")
}

fn address(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(10, 96, high, low)
}

fn resolver(port: u16) -> Result<()> {
    let mut zone = Zone::new(DOMAIN);
    for number in 0..NAMES {
        let record = Record { name: name(number), data: Data::A(address(number)) };
        zone.put(&("default".to_owned(), format!("service-{number}")), vec![record]);
    }
    zone.set_complete();
    let zone = Arc::new(RwLock::new(zone));
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let pods = "127.0.0.0/8".parse()?;
        let here = [IpAddr::from(Ipv4Addr::LOCALHOST)];
        let (at, metrics) = ((&here[..], port), Arc::new(DnsMetrics::new(DOMAIN)));
        let bound = Resolver::bind(at, pods, zone, Upstreams::default(), metrics).await?;
        ensure!(bound.endpoints()?.iter().all(|at| at.port() == port), "port {port} is taken");
        bound.serve().await;
        Ok(())
    })
}

/// One thread, no log, the same names as data of its own.
fn unbound_conf(port: u16) -> String {
    let data: String = (0..NAMES)
        .map(|number| format!("  local-data: \"{}. 5 IN A {}\"\n", name(number), address(number)))
        .collect();
    format!(
        "server:\n  interface: 127.0.0.1@{port}\n  port: {port}\n  num-threads: 1\n  do-daemonize: no\n  \
         use-syslog: no\n  verbosity: 0\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  do-ip6: no\n  \
         access-control: 127.0.0.0/8 allow\n  module-config: \"iterator\"\n  local-zone: \"{DOMAIN}.\" static\n{data}\
         remote-control:\n  control-enable: no\n"
    )
}

/// Microseconds of CPU per query.
fn measure(port: u16, server: &Process) -> Result<f64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    wait_for(&socket)?;
    let questions: Vec<Vec<u8>> = (0..NAMES).map(|number| question(number, &name(number), 1)).collect();
    let mut asked = questions.iter().cycle();
    let mut buffer = [0; 512];
    let mut ask = || socket.send(asked.next().map_or(&[][..], Vec::as_slice));
    for _ in 0..WINDOW {
        ask()?;
    }
    let (mut count, mut wrong) = (0_u64, 0_u64);
    let (before, begun) = (server.cpu()?, Instant::now());
    while begun.elapsed() < EACH {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                // One answer, and no error.
                wrong += u64::from(length < 12 || buffer[3] & 15 != 0 || buffer[7] != 1);
                count += 1;
            }
            // Lost: another one takes its place.
            Err(_) => wrong += 1,
        }
        ask()?;
    }
    let used = server.cpu()?.saturating_sub(before);
    ensure!(wrong * 1000 < count, "{wrong} of {count} queries failed at port {port}");
    Ok(used.as_secs_f64() * 1e6 / count as f64)
}

fn wait_for(socket: &UdpSocket) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let question = question(1, &name(1), 1);
    let mut buffer = [0; 512];
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    loop {
        // Nobody listens yet: the kernel tells, and it is tried again.
        let asked = socket.send(&question).and_then(|_| socket.recv(&mut buffer));
        if asked.is_ok() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "nobody answers");
        std::thread::sleep(Duration::from_millis(20));
    }
}
