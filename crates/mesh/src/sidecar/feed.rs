//! Follows what the agent says, for as long as the pod lives. Without an agent the proxy goes on with what it knows.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use minik8s_meta::mesh::{LISTENERS_SOCKET, SOCKET, SOCKET_DIR};
use minik8s_proxy::{Front, Shared, Wanted};
use minik8s_telemetry::{Queue, Span, Tracer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};

use super::counters::Counters;
use super::guard::{Guard, Guarded};
use super::table::{Outbound, Table};
use super::tls::Tls;
use crate::handover::{self, Listeners};
use crate::policy::verdict::Policies;
use crate::protocol::{Config, Credentials, Own, Report};
use crate::tap::{TapEvent, TapFilter, TapMatcher};

/// Between reports about requests, while there are any.
const REPORT: Duration = Duration::from_secs(2);
/// Bytes of spans that wait; what is more is left out.
const MOST_SPANS: usize = 64 << 10;
/// Spans that come within this time go together.
const GATHER: Duration = Duration::from_millis(500);
/// Requests that somebody wants to see go together if they come within this time, so many of each direction.
const TAP_GATHER: Duration = Duration::from_millis(50);
const MOST_TAPPED: usize = 128;
/// Until the next try while no agent listens: it is being started anew.
const RETRY: Duration = Duration::from_millis(250);

/// What follows the agent's words.
pub struct Parts {
    pub outbound: Arc<Shared<Outbound>>,
    pub guard: Arc<Shared<Guard>>,
    pub counters: Arc<Counters>,
    /// For agents to keep.
    pub listeners: Listeners,
    /// The agent's program.
    pub program: watch::Sender<Option<String>>,
    /// Requests that the agent is to be told of, from when it first wants to know.
    pub spans: OnceLock<Queue<Span>>,
}

/// Never returns.
pub async fn follow(parts: &Parts) {
    let path = Path::new(SOCKET_DIR).join(SOCKET);
    let mut told = false;
    loop {
        match UnixStream::connect(&path).await {
            Ok(stream) => {
                told = false;
                parts.give_listeners().await;
                let ended = Feed::new(parts).read(stream).await;
                parts.tap(&[]);
                info!(cause = ended.err().map(|error| error.to_string()), "the agent is gone; routes stay");
            }
            Err(error) if !told => {
                told = true;
                warn!(%error, "no agent listens at {}", path.display());
            }
            Err(_) => {}
        }
        sleep(RETRY).await;
    }
}

impl Parts {
    /// Nobody is let in until the first word.
    pub fn close(&self) {
        let counters = self.counters.clone();
        self.guard.table.send_replace(Arc::new(Guarded { is_untold: true, counters, ..Guarded::default() }));
    }

    /// Goes by what an agent has written down, if nobody has said anything yet.
    pub fn begin(&self, file: &Path) -> io::Result<()> {
        let config: Config = serde_json::from_slice(&std::fs::read(file)?)?;
        if self.guard.table.borrow().is_untold {
            Feed::new(self).apply(&config);
        }
        Ok(())
    }

    /// Tells of requests from now on. Only the first call counts.
    fn trace(&self, ratio: f64) {
        self.spans.get_or_init(|| {
            let queue = Queue::new("spans", MOST_SPANS);
            let _ = self.outbound.tracer.set(Tracer::new(queue.clone(), ratio));
            queue
        });
    }

    /// From now on requests that one of these matches are told.
    fn tap(&self, filters: &[TapFilter]) {
        // What the agent says was checked; one that cannot be used matches nothing.
        let wanted = || -> Option<Wanted> {
            let matchers: Vec<TapMatcher> = filters.iter().filter_map(|one| one.compile().ok()).collect();
            (!matchers.is_empty()).then(|| -> Wanted {
                Box::new(move |one| {
                    let matches =
                        |matcher: &TapMatcher| matcher.matches(&one.method, &one.path, one.code, &one.label);
                    matchers.iter().any(matches)
                })
            })
        };
        self.outbound.tap.set(wanted());
        self.guard.tap.set(wanted());
    }

    /// Requests that somebody wants to see, and how many more there were.
    async fn tapped(&self) -> (Vec<TapEvent>, u64) {
        tokio::select! {
            () = self.outbound.tap.filled() => {}
            () = self.guard.tap.filled() => {}
        }
        sleep(TAP_GATHER).await;
        let (sent, left_out) = self.outbound.tap.take(MOST_TAPPED);
        let (came, also) = self.guard.tap.take(MOST_TAPPED);
        let sent = sent.into_iter().map(|one| TapEvent::new(one, false));
        let mut all: Vec<TapEvent> =
            sent.chain(came.into_iter().map(|one| TapEvent::new(one, true))).collect();
        all.sort_by_key(|one| one.at);
        (all, left_out + also)
    }

    /// Those that have come within a moment.
    async fn spans(&self) -> Vec<Span> {
        let Some(queue) = self.spans.get() else { return std::future::pending().await };
        queue.filled().await;
        sleep(GATHER).await;
        queue.take()
    }

    /// Without it a proxy works as well, but a later one would find connections refused.
    async fn give_listeners(&self) {
        let Ok(listeners) = self.listeners.try_clone() else { return };
        let given = tokio::task::spawn_blocking(move || {
            let stream =
                std::os::unix::net::UnixStream::connect(Path::new(SOCKET_DIR).join(LISTENERS_SOCKET))?;
            handover::give(&stream, &listeners)
        });
        if let Ok(Err(error)) = given.await {
            warn!(%error, "the agent does not keep the listening sockets");
        }
    }
}

struct Feed<'a> {
    parts: &'a Parts,
    /// The credentials in use, and what was made of them.
    known: Option<(Credentials, Arc<Tls>)>,
    /// What was applied last: the version, and what this pod alone was told.
    told: Option<(u64, Own)>,
    /// What the agent has heard.
    seen: Report,
    /// The agent wants to know at once what is open.
    draining: bool,
}

impl<'a> Feed<'a> {
    fn new(parts: &'a Parts) -> Self {
        Feed { parts, known: None, told: None, seen: Report::default(), draining: false }
    }

    async fn read(&mut self, stream: UnixStream) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        loop {
            let report = tokio::select! {
                line = lines.next_line() => {
                    let Some(line) = line? else { return Ok(()) };
                    let config: Config = serde_json::from_str(&line)?;
                    self.parts.tap(&config.own.taps);
                    self.apply_new(&config);
                    self.draining = config.own.draining;
                    self.parts.program.send_if_modified(|known| {
                        let is_new = *known != config.own.program;
                        known.clone_from(&config.own.program);
                        is_new
                    });
                    if let Some(ratio) = config.own.trace_ratio {
                        self.parts.trace(ratio);
                    }
                    Report { applied: Some(config.version), ..Report::default() }
                }
                (tapped, tap_dropped) = self.parts.tapped() => {
                    Report { tapped, tap_dropped, ..Report::default() }
                }
                spans = self.parts.spans() => {
                    let spans = spans.into_iter().map(Into::into).collect();
                    Report { spans, ..Report::default() }
                }
                report = changed(self.parts, &self.seen, self.draining) => {
                    self.seen = report.clone();
                    report
                }
            };
            let mut answer = serde_json::to_vec(&report)?;
            answer.push(b'\n');
            writer.write_all(&answer).await?;
        }
    }

    /// Whoever taps changes nothing about where requests go.
    fn apply_new(&mut self, config: &Config) {
        let told = Some((config.version, Own { taps: Vec::new(), ..config.own.clone() }));
        if told != self.told {
            self.apply(config);
            self.told = told;
        }
    }

    /// Who may come in first, then where to go.
    fn apply(&mut self, config: &Config) {
        let Own { credentials, inbound, .. } = &config.own;
        let tls = credentials.as_ref().and_then(|credentials| self.tls(credentials));
        // An agent that was started anew may have none to give yet, and the former one is still good.
        let tls = tls.or_else(|| self.parts.guard.table.borrow().tls.clone());
        self.parts.guard.table.send_replace(Arc::new(Guarded {
            strict: inbound.strict,
            policies: Policies::new(inbound),
            tls: tls.clone(),
            counters: self.parts.counters.clone(),
            ..Guarded::default()
        }));
        let outbound = &self.parts.outbound.table;
        let table =
            Table::new(&config.routes, &config.services, tls, &config.own.namespace, &outbound.borrow());
        let endpoints = Outbound::endpoints(&table);
        self.parts.outbound.front.treating.h2c.retain(|address| endpoints.contains(address));
        outbound.send_replace(Arc::new(table));
    }

    fn tls(&mut self, credentials: &Credentials) -> Option<Arc<Tls>> {
        if let Some((_, tls)) = self.known.as_ref().filter(|(known, _)| known == credentials) {
            return Some(tls.clone());
        }
        match Tls::new(credentials) {
            Ok(tls) => {
                info!(identity = %tls.identity, "a new certificate");
                let tls = Arc::new(tls);
                self.known = Some((credentials.clone(), tls.clone()));
                Some(tls)
            }
            Err(error) => {
                warn!(error, "the certificate cannot be used");
                self.known.as_ref().map(|(_, tls)| tls.clone())
            }
        }
    }
}

/// What the agent does not know of. While there is nothing to be counted, nobody wakes.
async fn changed(parts: &Parts, seen: &Report, draining: bool) -> Report {
    loop {
        let counted = async {
            tokio::select! {
                () = parts.outbound.front.has_open() => {}
                () = parts.counters.touched() => {}
            }
            sleep(REPORT).await;
        };
        tokio::select! {
            () = counted => {}
            () = parts.counters.open_differs(seen.open), if draining => {}
        }
        let report = Report { open: draining.then(|| parts.counters.open()), ..report(parts) };
        if report != *seen {
            return report;
        }
    }
}

fn report(parts: &Parts) -> Report {
    Report { inbound: parts.counters.all(), ..Report::of(&parts.outbound.metrics) }
}

#[cfg(test)]
mod tests;
