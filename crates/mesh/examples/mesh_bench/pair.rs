//! Two proxies in a row with mTLS between them, as a request between two pods meets them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use minik8s_mesh::sidecar::{self, Credentials, Guard, Guarded, Places, Tls, serve_inbound};
use minik8s_proxy::{Shared, Worker};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::process::{Process, free_port, is_installed, median, verdict};
use crate::{PLACES, ROUNDS, load, measure, peers};

/// Whom the second proxy proves to be.
pub const ACCOUNT: &str = "shop/reviews";
/// Not the address that calls come from: a pod that calls itself is spoken to without TLS.
const FAR: &str = "127.0.0.2";
/// Requests in a second, whatever becomes of those before.
const RATE: u32 = 1000;

struct Pair {
    name: &'static str,
    port: u16,
    processes: [Process; 2],
    cpu: Vec<f64>,
    p99: Vec<f64>,
}

pub async fn compare(dir: &Path, back: u16) -> Result<()> {
    issue(dir)?;
    let mut pairs = vec![ours(dir, back)?];
    if is_installed("envoy", "--version") {
        pairs.push(envoys(dir, back)?);
    }
    let mut direct = Vec::new();
    for _ in 0..ROUNDS {
        direct.push(load::p99(back, RATE).await?);
        for pair in &mut pairs {
            let [first, second] = &pair.processes;
            pair.cpu.push(measure(pair.name, pair.port, &[first, second]).await?);
            pair.p99.push(load::p99(pair.port, RATE).await?);
        }
    }
    for pair in pairs.iter().filter(|pair| pair.name == "sidecars") {
        let [first, second] = &pair.processes;
        load::storm(pair.name, pair.port, &[first, second]).await?;
    }
    let direct = median(direct);
    for pair in &pairs {
        let added = median(pair.p99.clone()) - direct;
        println!("{}: the 99th percentile at {RATE}/s is {added:.0} µs more than {direct:.0} µs", pair.name);
    }
    if let [own, theirs] = &pairs[..] {
        let ratio = |of: fn(&Pair) -> &Vec<f64>, less: f64| {
            (median(of(own).clone()) - less) / (median(of(theirs).clone()) - less)
        };
        verdict("pair with mTLS: CPU per request, of Envoy's", ratio(|pair| &pair.cpu, 0.0), "", 0.4);
        verdict("pair with mTLS: added p99, of Envoy's", ratio(|pair| &pair.p99, direct), "", 0.5);
    }
    Ok(())
}

fn ours(dir: &Path, back: u16) -> Result<Pair> {
    let me = std::env::current_exe()?;
    let (near, far) = (free_port()?, free_port()?);
    let start = |role: &str, port: u16, to: &str| {
        Process::start(Command::new(&me).args([role, &port.to_string(), to]).arg(dir))
    };
    let processes = [
        start("outbound", near, &format!("{FAR}:{far}"))?,
        start("inbound", far, &format!("127.0.0.1:{back}"))?,
    ];
    Ok(Pair { name: "sidecars", port: near, processes, cpu: Vec::new(), p99: Vec::new() })
}

fn envoys(dir: &Path, back: u16) -> Result<Pair> {
    let (near, far) = (free_port()?, free_port()?);
    let start = |name: &str, port: u16, to: u16, tls: peers::EnvoyTls<'_>| {
        let file = dir.join(format!("{name}.json"));
        peers::envoy(&file, port, to, tls)?;
        let mut command = Command::new("envoy");
        Process::start(command.args(["--concurrency", "1", "--disable-hot-restart", "-c"]).arg(&file))
    };
    let first = start("envoy-near", near, far, (None, Some((dir, "client"))))?;
    let second = start("envoy-far", far, back, (Some((dir, "server")), None))?;
    Ok(Pair { name: "envoys", port: near, processes: [first, second], cpu: Vec::new(), p99: Vec::new() })
}

/// Keys and certificates as the mesh has them, in files, since Envoy reads such.
fn issue(dir: &Path) -> Result<()> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "mesh");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    std::fs::write(dir.join("ca.crt"), params.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(params, key);
    for (name, account) in [("client", "web"), ("server", "reviews")] {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        let uri = format!("spiffe://cluster.local/ns/shop/sa/{account}");
        params.subject_alt_names = vec![SanType::URI(uri.as_str().try_into()?)];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        std::fs::write(dir.join(format!("{name}.crt")), params.signed_by(&key, &issuer)?.pem())?;
        std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem())?;
    }
    Ok(())
}

pub fn credentials(dir: &Path, name: &str) -> Result<Arc<Tls>> {
    let read = |file: &str| std::fs::read_to_string(dir.join(file)).with_context(|| file.to_owned());
    let certificates = read(&format!("{name}.crt"))? + &read("ca.crt")?;
    let credentials = Credentials { certificates, key: read(&format!("{name}.key"))? };
    Ok(Arc::new(Tls::new(&credentials).map_err(anyhow::Error::msg)?))
}

/// As in a pod, but for the rules that lead connections to it: here every one wants to go to the backend.
pub async fn inbound(port: u16, backend: SocketAddr, dir: &Path) -> Result<()> {
    let shared: Arc<Shared<Guard>> = Arc::default();
    let tls = Some(credentials(dir, "server")?);
    shared.table.send_replace(Arc::new(Guarded { strict: true, tls, ..Guarded::default() }));
    let worker = Worker::start(shared, CancellationToken::new());
    let listener = TcpListener::bind((FAR, port)).await?;
    let [_, places] = Places::both(PLACES);
    sidecar::accept(&listener, &places, |stream, peer| {
        tokio::spawn(serve_inbound(stream, (peer, backend), worker.clone(), true)).abort_handle()
    })
    .await;
    Ok(())
}
