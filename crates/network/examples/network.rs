//! How long 10,000 Services with 5 endpoints each take to get into the kernel, and one changed endpoint after
//! that, from the event to the kernel. Run it as root in a network namespace of its own: `unshare -n`.

use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use minik8s_network::proxy::{Book, Nft, Table, plan_service, ruleset};
use serde_json::json;

const SERVICES: u32 = 10_000;
const CHANGES: u32 = 50;
const TABLE: &str = "minik8s-bench";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let objects: Vec<(Service, EndpointSlice)> =
        (0..SERVICES).map(|number| Ok((service(number)?, slice(number, 0)?))).collect::<Result<_>>()?;
    let started = Instant::now();
    let mut book = Book::default();
    for (number, (service, slice)) in objects.iter().enumerate() {
        book.put(&key(number as u32), plan_service(service, [slice].into_iter(), "node"));
    }
    book.take_changes();
    let routes = book.routes();
    let text = ruleset(&routes, TABLE, "10.244.0.0/16".parse()?).to_string();
    let computed = started.elapsed();
    Nft.apply(&text).await?;
    let loaded = started.elapsed();
    println!("load {SERVICES} Services x 5 endpoints   {loaded:>10.1?}   (of it {computed:.1?} before nft)");
    let mut table = Table::new(TABLE, &routes);
    let mut times: Vec<Duration> = Vec::new();
    for number in 0..CHANGES {
        let changed = slice(number, 1)?;
        let started = Instant::now();
        let service = &objects[number as usize].0;
        book.put(&key(number), plan_service(service, [&changed].into_iter(), "node"));
        Nft.apply(&table.change(&book.take_changes()).to_string()).await?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "change one endpoint                    {median:>10.1?}   (slowest of {CHANGES}: {slowest:.1?})"
    );
    Nft.delete_table(TABLE).await?;
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
