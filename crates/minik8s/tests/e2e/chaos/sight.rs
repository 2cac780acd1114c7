//! What the API tells about the pods and endpoints of the Service, and when it told it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use crate::harness::consistency::version;
use crate::harness::control_plane::Credentials;

pub const PODS: &str = "/api/v1/namespaces/chaos/pods";
pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/chaos/endpointslices";

/// Somebody who is shown objects as they change.
pub trait Sees: Send + 'static {
    fn see(&mut self, object: &Value, is_gone: bool);
}

/// The witness, and the times in which nobody answered.
pub struct Seen<T> {
    pub by: T,
    pub blind: Vec<(Instant, Instant)>,
}

/// Shows `to` everything below `path` until it is finished.
pub async fn follow<T: Sees>(
    path: &'static str,
    to: T,
    credentials: Credentials,
    mut finished: watch::Receiver<bool>,
) -> Seen<T> {
    let mut seen = Seen { by: to, blind: Vec::new() };
    let mut last = 0;
    let mut dark = Instant::now();
    loop {
        tokio::select! {
            _ = look(path, &credentials, &mut seen, &mut last, &mut dark) => {}
            _ = finished.wait_for(|finished| *finished) => return seen,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Until the connection breaks. `dark` is since when it has been so.
async fn look<T: Sees>(
    path: &str,
    credentials: &Credentials,
    seen: &mut Seen<T>,
    last: &mut u64,
    dark: &mut Instant,
) -> Result<()> {
    let mut connection = credentials.connect().await?;
    if *last == 0 {
        let (code, list) = connection.get(path).await?;
        anyhow::ensure!(code == 200, "{code}");
        list["items"].as_array().into_iter().flatten().for_each(|object| seen.by.see(object, false));
        *last = version(&list);
    }
    let mut watch = connection.watch(&format!("{path}?watch=1&resourceVersion={last}")).await?;
    seen.blind.push((*dark, Instant::now()));
    let told = loop {
        let event = match watch.next().await {
            Ok(Some(event)) => event,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if event["type"] == "ERROR" {
            bail!("{}", event["object"]);
        }
        *last = version(&event["object"]);
        seen.by.see(&event["object"], event["type"] == "DELETED");
    };
    *dark = Instant::now();
    told
}

/// One container of a pod at one address, as long as it is told of.
#[derive(Debug, Clone)]
pub struct Life {
    pub pod: String,
    pub node: String,
    pub address: String,
    pub since: Instant,
    pub ended: Option<Instant>,
    /// When it must have ended, once it was told to.
    pub doomed: Option<Instant>,
    /// When it was told that its node had to give it up: it lacked room on its disk.
    pub evicted: Option<Instant>,
    container: String,
}

impl Life {
    pub fn new(pod: &str, node: &str, address: &str, container: &str, since: Instant) -> Life {
        let [pod, node, address, container] = [pod, node, address, container].map(str::to_owned);
        Life { pod, node, address, since, ended: None, doomed: None, evicted: None, container }
    }
}

#[derive(Default)]
pub struct Lives(pub Vec<Life>);

impl Sees for Lives {
    fn see(&mut self, pod: &Value, is_gone: bool) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let uid = text(&pod["metadata"]["uid"]);
        let (node, address) = (text(&pod["spec"]["nodeName"]), text(&pod["status"]["podIP"]));
        let container = text(&pod["status"]["containerStatuses"][0]["containerID"]);
        let now = Instant::now();
        let current = self.0.iter_mut().rfind(|life| life.pod == uid && life.ended.is_none());
        let is_same =
            current.as_ref().is_some_and(|life| life.address == address && life.container == container);
        if let Some(life) = current {
            life.ended = (is_gone || !is_same).then_some(now);
        }
        if !is_same && !is_gone && !address.is_empty() && !container.is_empty() {
            self.0.push(Life::new(&uid, &node, &address, &container, now));
        }
        if pod["status"]["reason"] == "Evicted" {
            for life in self.0.iter_mut().filter(|life| life.pod == uid) {
                life.evicted.get_or_insert(now);
            }
        }
        if let Ok(end) = text(&pod["metadata"]["deletionTimestamp"]).parse::<Timestamp>() {
            let left = Duration::try_from(end.duration_since(Timestamp::now())).unwrap_or_default();
            for life in self.0.iter_mut().filter(|life| life.pod == uid) {
                life.doomed.get_or_insert(now + left);
            }
        }
    }
}

/// From when until when an address was among the ready endpoints.
#[derive(Debug, Clone)]
pub struct Span {
    pub address: String,
    pub since: Instant,
    pub until: Option<Instant>,
}

#[derive(Default)]
pub struct Listed {
    slices: BTreeMap<String, BTreeSet<String>>,
    pub spans: Vec<Span>,
}

impl Sees for Listed {
    fn see(&mut self, slice: &Value, is_gone: bool) {
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        let ready = endpoints.filter(|endpoint| !is_gone && endpoint["conditions"]["ready"] == true);
        let addresses = ready.filter_map(|endpoint| endpoint["addresses"][0].as_str().map(str::to_owned));
        let name = slice["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.slices.insert(name, addresses.collect());
        let all: BTreeSet<&String> = self.slices.values().flatten().collect();
        let now = Instant::now();
        for span in self.spans.iter_mut().filter(|span| span.until.is_none()) {
            span.until = (!all.contains(&span.address)).then_some(now);
        }
        for address in all {
            if !self.spans.iter().any(|span| span.until.is_none() && span.address == *address) {
                self.spans.push(Span { address: address.clone(), since: now, until: None });
            }
        }
    }
}
