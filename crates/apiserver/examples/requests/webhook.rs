//! What an admission webhook on this machine adds to a write, beside the time that the webhook takes itself.
//!
//! Writes are tried one after the other and without effect, so that neither the disk nor others are measured.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use minik8s_apiserver::LocalService;
use minik8s_auth::pki::{self, Pki, ServingNames};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::{CONFIG_MAPS, Error, send};

const ROUNDS: usize = 1000;
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const IN_FORCE: Duration = Duration::from_secs(30);

pub async fn measure(client: &LocalService) -> Result<(), Error> {
    let webhook = Webhook::start().await?;
    let without = median(tries(client, &webhook).await?);
    send(client, Method::POST, CONFIGURATIONS, webhook.configuration()).await?;
    let until = Instant::now() + IN_FORCE;
    while webhook.take().is_zero() {
        if Instant::now() > until {
            return Err("the webhook is never asked".into());
        }
        try_one(client).await?;
    }
    let tried = tries(client, &webhook).await?;
    let own = median(tried.iter().map(|one| Tried { total: one.own, own: Duration::ZERO }).collect());
    let with = median(tried);
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    let (what, above) = ("write with a webhook", microseconds(with.saturating_sub(without)));
    let (own, without) = (microseconds(own), microseconds(without));
    println!("{what:<28} {above:>5.0} µs above the webhook's own {own:.0} µs; {without:.0} µs without it");
    send(client, Method::DELETE, &format!("{CONFIGURATIONS}/bench"), String::new()).await
}

/// One write, and how much of its time was the webhook's own.
struct Tried {
    total: Duration,
    own: Duration,
}

/// Of what is not the webhook's own.
fn median(tried: Vec<Tried>) -> Duration {
    let mut times: Vec<Duration> = tried.iter().map(|one| one.total.saturating_sub(one.own)).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn tries(client: &LocalService, webhook: &Webhook) -> Result<Vec<Tried>, Error> {
    let mut tried = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        try_one(client).await?;
        tried.push(Tried { total: begun.elapsed(), own: webhook.take() });
    }
    Ok(tried)
}

async fn try_one(client: &LocalService) -> Result<(), Error> {
    let body = json!({"metadata": {"name": "tried"}, "data": {"x": "x".repeat(1000)}});
    send(client, Method::POST, &format!("{CONFIG_MAPS}?dryRun=All"), body.to_string()).await
}

/// Allows everything.
struct Webhook {
    address: SocketAddr,
    ca: String,
    /// What it has spent on answers since somebody looked.
    spent: Arc<Mutex<Duration>>,
    serving: JoinHandle<()>,
    _dir: TempDir,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Webhook {
    async fn start() -> Result<Webhook, Error> {
        let (dir, loopback) = (tempfile::tempdir()?, IpAddr::V4(Ipv4Addr::LOCALHOST));
        let names = ServingNames {
            host_name: "webhook".to_owned(),
            addresses: vec![loopback],
            extra_names: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            service_address: None,
        };
        let pki = Pki::load_or_create(dir.path(), &names, Timestamp::now())?;
        let tls = TlsAcceptor::from(Arc::new(pki::server_config(&pki)?));
        let listener = TcpListener::bind((loopback, 0)).await?;
        let (address, spent) = (listener.local_addr()?, Arc::<Mutex<Duration>>::default());
        let noted = spent.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, noted) = (tls.clone(), noted.clone());
                tokio::spawn(async move {
                    let _ = stream.set_nodelay(true);
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service =
                        service_fn(move |request: Request<Incoming>| answer(request, noted.clone()));
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Webhook { address, ca: pki.ca_pem(), spent, serving, _dir: dir })
    }

    fn configuration(&self) -> String {
        json!({"metadata": {"name": "bench"}, "webhooks": [{
            "name": "bench.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://{}/", self.address), "caBundle": STANDARD.encode(&self.ca)},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }]})
        .to_string()
    }

    fn take(&self) -> Duration {
        std::mem::take(&mut *self.spent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn answer(
    request: Request<Incoming>,
    spent: Arc<Mutex<Duration>>,
) -> Result<Response<Full<Bytes>>, Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let begun = Instant::now();
    let review: Value = serde_json::from_slice(&body)?;
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    let said = json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})
        .to_string();
    *spent.lock().unwrap_or_else(PoisonError::into_inner) += begun.elapsed();
    Ok(Response::new(Full::new(Bytes::from(said))))
}
