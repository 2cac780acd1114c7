//! `healthCheckNodePort`: tells load balancers whether this node has endpoints of a Service whose traffic may
//! not leave the node (`externalTrafficPolicy: Local`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use minik8s_informer::Backoff;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::backends::{Backends, Key};

const TIMEOUT: Duration = Duration::from_secs(5);
const RETRY: Backoff = Backoff::millis(500, 10_000);
/// Of a request that nobody reads but for its end.
const LONGEST_REQUEST: usize = 8192;

/// A listener for each Service that wants one.
#[derive(Default)]
pub struct HealthPorts(BTreeMap<Key, HealthPort>);

struct HealthPort {
    port: u16,
    endpoints: watch::Sender<usize>,
    _task: AbortOnDropHandle<()>,
}

impl HealthPorts {
    /// `any` is the address that stands for all of the node's.
    pub fn update(&mut self, backends: &Backends, changed: &BTreeSet<Key>, (node, any): (&str, IpAddr)) {
        for service in changed {
            let Some(port) = backends.service(service).and_then(health_port) else {
                self.0.remove(service);
                continue;
            };
            let endpoints = local_endpoints(backends.slices(service), node);
            match self.0.get(service).filter(|known| known.port == port) {
                Some(known) => drop(known.endpoints.send_replace(endpoints)),
                None => {
                    let open = HealthPort::open(service.clone(), (any, port), endpoints);
                    drop(self.0.insert(service.clone(), open));
                }
            }
        }
    }
}

impl HealthPort {
    fn open(service: Key, at: (IpAddr, u16), endpoints: usize) -> HealthPort {
        let (sender, receiver) = watch::channel(endpoints);
        let task = AbortOnDropHandle::new(tokio::spawn(listen(service, at, receiver)));
        HealthPort { port: at.1, endpoints: sender, _task: task }
    }
}

fn health_port(service: &Service) -> Option<u16> {
    let spec = service.spec.as_ref()?;
    let wanted = spec.type_.as_deref() == Some("LoadBalancer")
        && spec.external_traffic_policy.as_deref() == Some("Local");
    u16::try_from(spec.health_check_node_port.filter(|_| wanted)?).ok().filter(|&port| port != 0)
}

/// Ready ones alone: a node whose pods all terminate wants no new connections.
fn local_endpoints<'a>(slices: impl Iterator<Item = &'a EndpointSlice>, node: &str) -> usize {
    let endpoints = slices.flat_map(|slice| slice.endpoints.iter().flatten());
    let here = endpoints.filter(|endpoint| endpoint.node_name.as_deref() == Some(node));
    let ready = here.filter(|endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false)
    });
    ready.flat_map(|endpoint| &endpoint.addresses).collect::<BTreeSet<_>>().len()
}

async fn listen(service: Key, (any, port): (IpAddr, u16), endpoints: watch::Receiver<usize>) {
    let (namespace, name) = &service;
    let mut retries = RETRY.retries();
    let listener = loop {
        match TcpListener::bind((any, port)).await {
            Ok(listener) => break listener,
            Err(error) => {
                warn!("cannot tell the health of Service {namespace}/{name} on port {port}: {error}");
                sleep(retries.failed()).await;
            }
        }
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: that passes.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let reply = reply(namespace, name, *endpoints.borrow());
        tokio::spawn(async move { timeout(TIMEOUT, answer(stream, reply)).await });
    }
}

/// One request a connection: it is what balancers do, and all that this port is for.
async fn answer(mut stream: TcpStream, reply: String) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST_REQUEST {
        if stream.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    stream.write_all(reply.as_bytes()).await?;
    stream.shutdown().await
}

fn reply(namespace: &str, name: &str, endpoints: usize) -> String {
    let status = if endpoints == 0 { "503 Service Unavailable" } else { "200 OK" };
    let body = serde_json::json!({
        "service": {"namespace": namespace, "name": name},
        "localEndpoints": endpoints,
        "serviceProxyHealthy": true,
    })
    .to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Load-Balancing-Endpoint-Weight: {endpoints}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use minik8s_informer::Change;
    use serde_json::json;

    use super::*;

    async fn ask(port: u16) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        Some(text)
    }

    #[tokio::test]
    async fn a_node_tells_whether_it_has_endpoints() {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap().port();
        let service = json!({"metadata": {"namespace": "ns", "name": "web"}, "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port,
        }});
        let slice = |node: &str, ready: bool| {
            let endpoint =
                json!({"addresses": ["10.0.0.1"], "nodeName": node, "conditions": {"ready": ready}});
            let slice = json!({
                "metadata": {"namespace": "ns", "name": "s", "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv4", "endpoints": [endpoint],
            });
            Change::Applied { old: None, new: Arc::new(serde_json::from_value(slice).unwrap()) }
        };
        let mut backends = Backends::default();
        let mut ports = HealthPorts::default();
        let object: Arc<Service> = Arc::new(serde_json::from_value(service).unwrap());
        backends.take_service(Change::Applied { old: None, new: object.clone() });
        for (node, ready, expected) in
            [("a", true, "HTTP/1.1 200 OK"), ("a", false, "HTTP/1.1 503"), ("b", true, "HTTP/1.1 503")]
        {
            backends.take_slice(slice(node, ready));
            let changed = backends.take_changed();
            ports.update(&backends, &changed, ("a", Ipv4Addr::UNSPECIFIED.into()));
            let answer = loop {
                match ask(port).await {
                    Some(answer) => break answer,
                    None => sleep(Duration::from_millis(5)).await,
                }
            };
            assert!(answer.starts_with(expected), "{answer}");
        }
        backends.take_service(Change::Removed(object));
        let changed = backends.take_changed();
        ports.update(&backends, &changed, ("a", Ipv4Addr::UNSPECIFIED.into()));
        while ask(port).await.is_some() {
            sleep(Duration::from_millis(5)).await;
        }
    }
}
