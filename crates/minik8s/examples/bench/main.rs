//! `make bench`: measures the API server against real peers, as ratios within one run.
//!
//! Usage: `bench MINIK8S_BINARY [SECONDS [PART]]`, where PART is `api`, `lists` or `workloads`. It starts the binary with a data dir of its own (below the current
//! directory, so that it is on a real disk), drives it over TLS on loopback, and removes everything at the end.
//! Peers: etcd (raw puts on the same disk), a static file server (the same bytes over the same TLS).

mod client;
mod measure;
mod peers;
mod server;
mod workloads;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use crate::measure::Results;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let binary: PathBuf = arguments.next().context("usage: bench MINIK8S_BINARY [SECONDS]")?.into();
    let seconds = arguments.next().map_or(Ok(5), |text| text.parse()).context("SECONDS is a whole number")?;
    let mut results = Results::default();
    let only = arguments.next();
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if wanted("api") {
        measure::api(&binary, Duration::from_secs(seconds), &mut results).await?;
    }
    if wanted("lists") {
        measure::lists(&binary, &mut results).await?;
    }
    if wanted("workloads") {
        workloads::workloads(&binary, &mut results).await?;
    }
    print!("{results}");
    Ok(())
}
