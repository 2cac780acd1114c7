//! Events as lines of a log, for a collector elsewhere: kept there longer than the hour for which the API keeps them.
//!
//! Only the server that leads tells of them. What happened before it did is not told again.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher;
use kube::{Api, Client};
use minik8s_informer::Lenient;
use minik8s_telemetry::{LogRecord, LogSource, Queue, Severity};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Namespaces whose source is kept.
const MOST_SOURCES: usize = 1000;

/// Until `stop`.
pub async fn export_events(
    client: Client,
    queue: Queue<LogRecord>,
    mut leads: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    loop {
        let leading = async {
            if leads.wait_for(|leads| *leads).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = leading => {}
            () = stop.cancelled() => return,
        }
        let mut exporter =
            EventExporter { queue: queue.clone(), newest: Timestamp::now(), sources: HashMap::new() };
        let following = async {
            if leads.wait_for(|leads| !*leads).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = exporter.follow(client.clone()) => {}
            () = following => {}
            () = stop.cancelled() => return,
        }
    }
}

struct EventExporter {
    queue: Queue<LogRecord>,
    /// Events up to here were told.
    newest: Timestamp,
    sources: HashMap<String, Arc<LogSource>>,
}

impl EventExporter {
    async fn follow(&mut self, client: Client) {
        let events = Api::<Lenient<Event>>::all(client);
        let mut changes = Box::pin(watcher::watcher(events, watcher::Config::default()).default_backoff());
        while let Some(change) = changes.next().await {
            match change {
                Ok(watcher::Event::Apply(event)) => self.tell(&event.0.object),
                // A list after a gap: what is new in it happened in the gap.
                Ok(watcher::Event::InitApply(event)) if time_of(&event.0.object) > self.newest => {
                    self.tell(&event.0.object);
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "events cannot be watched; trying again"),
            }
        }
    }

    fn tell(&mut self, event: &Event) {
        self.newest = self.newest.max(time_of(event));
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        if self.sources.len() > MOST_SOURCES {
            self.sources.clear();
        }
        let source = self.sources.entry(namespace);
        let source = source.or_insert_with_key(|namespace| Arc::new(LogSource::events(namespace))).clone();
        self.queue.push(record(event, source));
    }
}

/// When it happened last.
fn time_of(event: &Event) -> Timestamp {
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let once = event.event_time.as_ref().map(|time| time.0);
    let created = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    series.or(last).or(once).or(created).unwrap_or_default()
}

/// Pure.
fn record(event: &Event, source: Arc<LogSource>) -> LogRecord {
    let about = &event.involved_object;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let count = event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1);
    let component = text(&event.source.as_ref().and_then(|source| source.component.clone()));
    let reporter = event.reporting_component.clone().filter(|name| !name.is_empty()).unwrap_or(component);
    let is_warning = event.type_.as_deref() == Some("Warning");
    LogRecord {
        source,
        time: u64::try_from(time_of(event).as_nanosecond()).unwrap_or_default(),
        stream: None,
        severity: if is_warning { Severity::Warn } else { Severity::Info },
        body: text(&event.message),
        attributes: vec![
            ("k8s.event.type", text(&event.type_)),
            ("k8s.event.reason", text(&event.reason)),
            ("k8s.event.count", count.to_string()),
            ("k8s.object.kind", text(&about.kind)),
            ("k8s.object.name", text(&about.name)),
            ("k8s.event.reporter", reporter),
        ],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(changes: serde_json::Value) -> Event {
        let mut event = json!({"metadata": {"name": "e", "namespace": "shop"}, "type": "Warning", "reason": "BackOff",
            "message": "again", "count": 3, "lastTimestamp": "2026-01-01T00:00:01Z",
            "involvedObject": {"kind": "Pod", "name": "web-1"}, "source": {"component": "kubelet"}});
        for (name, value) in changes.as_object().unwrap() {
            event[name] = value.clone();
        }
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn record_says_what_happened_to_whom_and_when() {
        let source = Arc::new(LogSource::events("shop"));
        let told = record(&event(json!({})), source.clone());
        assert_eq!((told.body.as_str(), told.severity), ("again", Severity::Warn));
        assert_eq!(told.time, 1_767_225_601_000_000_000);
        for expected in [
            ("k8s.event.reason", "BackOff"),
            ("k8s.event.count", "3"),
            ("k8s.object.kind", "Pod"),
            ("k8s.object.name", "web-1"),
            ("k8s.event.reporter", "kubelet"),
        ] {
            assert!(
                told.attributes.iter().any(|(name, value)| (*name, value.as_str()) == expected),
                "{expected:?}"
            );
        }
        let newer = json!({"type": "Normal", "count": null, "lastTimestamp": null,
            "eventTime": "2026-01-01T00:00:02.000000Z", "series": null});
        let told = record(&event(newer), source);
        assert_eq!((told.time, told.severity), (1_767_225_602_000_000_000, Severity::Info));
    }
}
