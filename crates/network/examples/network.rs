//! How long 10,000 Services with 5 endpoints each take to get into the kernel, and one changed endpoint after
//! that, from the event to the kernel. Run it as root in a network namespace of its own: `unshare -n`.

#[allow(dead_code, reason = "another measurement uses the rest")]
#[path = "dns_bench/process.rs"]
mod process;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use minik8s_meta::IpFamily;
use minik8s_network::proxy::{Book, Nft, Table, diff, plan_service, ruleset};
use process::verdict;
use serde_json::json;

const SERVICES: u32 = 10_000;
const CHANGES: u32 = 50;
/// The agent waits so long for further events before it changes rules.
const GATHER_MS: f64 = 5.0;
const TABLE: &str = "minik8s-bench";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let objects: Vec<(Service, EndpointSlice)> =
        (0..SERVICES).map(|number| Ok((service(number)?, slice(number, 0)?))).collect::<Result<_>>()?;
    let started = Instant::now();
    let mut book = Book::default();
    for (number, (service, slice)) in objects.iter().enumerate() {
        book.put(&key(number as u32), plan_service(service, [slice].into_iter(), ("node", IpFamily::V4)));
    }
    book.take_changes();
    let routes = book.routes();
    let wanted = ruleset(&routes, TABLE, "10.244.0.0/16".parse()?);
    Nft.apply(&wanted.to_string()).await?;
    verdict("load 10,000 Services x 5 endpoints", started.elapsed().as_secs_f64(), "s", 2.0);
    let started = Instant::now();
    let found = Nft.list(IpFamily::V4, TABLE).await?.into_ruleset(&wanted).context("the table is ours")?;
    let change = diff(&found, &wanted).context("maps are of the same types")?;
    ensure!(change.is_empty(), "a new start would change what is there:\n{change}");
    verdict("a new start: read them and find nothing to change", started.elapsed().as_secs_f64(), "s", 2.0);
    let mut table = Table::new(IpFamily::V4, TABLE, &routes);
    let mut times: Vec<Duration> = Vec::new();
    for number in 0..CHANGES {
        let changed = slice(number, 1)?;
        let started = Instant::now();
        let service = &objects[number as usize].0;
        book.put(&key(number), plan_service(service, [&changed].into_iter(), ("node", IpFamily::V4)));
        Nft.apply(&table.change(&book.take_changes()).to_string()).await?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3 + GATHER_MS;
    verdict("change one endpoint, from watch event to kernel", milliseconds(median), "ms", 50.0);
    verdict("the slowest of 50 such changes", milliseconds(slowest), "ms", 50.0);
    Nft.delete_table(IpFamily::V4, TABLE).await?;
    Ok(())
}

fn key(number: u32) -> (String, String) {
    ("bench".to_owned(), format!("s{number}"))
}

fn service(number: u32) -> Result<Service> {
    let address = format!("10.{}.{}.{}", 96 + number / 65536, number / 256 % 256, number % 256);
    let spec = json!({"clusterIP": address, "ports": [{"port": 80}]});
    Ok(serde_json::from_value(
        json!({"metadata": {"namespace": "bench", "name": key(number).1}, "spec": spec}),
    )?)
}

fn slice(number: u32, shift: u32) -> Result<EndpointSlice> {
    let endpoint = |index: u32| {
        let pod = number * 5 + index + if index == 2 { shift * 7 } else { 0 };
        let address = format!("10.244.{}.{}", pod / 250 % 256, pod % 250 + 1);
        json!({"addresses": [address], "nodeName": format!("n{}", pod % 50)})
    };
    Ok(serde_json::from_value(json!({
        "metadata": {"namespace": "bench", "name": format!("s{number}-1")},
        "addressType": "IPv4", "ports": [{"port": 8080}],
        "endpoints": (0..5).map(endpoint).collect::<Vec<_>>(),
    }))?)
}
