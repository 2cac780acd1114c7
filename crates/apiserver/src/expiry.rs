//! Events are news, not state: they go an hour after they were last seen.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use minik8s_store::{Commit, Condition, Op, Range};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::error::Result;
use crate::registry::Registry;

const LIFETIME: SignedDuration = SignedDuration::from_hours(1);
const INTERVAL: Duration = Duration::from_secs(60);
/// Deletes per commit: enough to be quick, few enough not to hold up others.
const BATCH: usize = 200;

/// Removes old events until `stop`.
pub async fn run(api: Arc<Api>, stop: CancellationToken) {
    loop {
        tokio::select! {
            _ = stop.cancelled() => return,
            _ = tokio::time::sleep(INTERVAL) => {}
        }
        if let Err(error) = sweep(&api.registry, Timestamp::now()).await {
            tracing::warn!(%error, "old events could not be removed");
        }
    }
}

async fn sweep(registry: &Registry, now: Timestamp) -> Result<()> {
    let events = registry.built_in("", "v1", "events")?;
    let mut after = None;
    loop {
        let range =
            Range { prefix: events.prefix.clone(), after: after.take(), limit: BATCH, revision: None };
        let page = registry.store.range(range).await?;
        let old = page.entries.iter().filter(|entry| is_old(&entry.value, now));
        let mut commit = Commit::default();
        for entry in old {
            let key = entry.key.to_string();
            commit.conditions.push(Condition { key: key.clone(), revision: entry.revision });
            commit.ops.push(Op::Delete { key });
        }
        if !commit.ops.is_empty() {
            // A conflict means that one of them was seen again: the next sweep looks anew.
            registry.store.commit(commit).await?;
        }
        match page.entries.last() {
            Some(last) if page.more => after = Some(last.key.to_string()),
            _ => return Ok(()),
        }
    }
}

fn is_old(value: &[u8], now: Timestamp) -> bool {
    let Ok(event) = serde_json::from_slice::<Value>(value) else { return false };
    let times = [
        &event["metadata"]["creationTimestamp"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["series"]["lastObservedTime"],
    ];
    let last_seen = times.iter().filter_map(|time| time.as_str()?.parse::<Timestamp>().ok()).max();
    last_seen.is_some_and(|seen| now.duration_since(seen) > LIFETIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(event: &str, expected: bool) {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        assert_eq!(is_old(event.as_bytes(), now), expected, "{event}");
    }

    #[test]
    fn an_event_lives_for_an_hour_after_it_was_last_seen() {
        check(r#"{"metadata": {"creationTimestamp": "2026-01-01T11:30:00Z"}}"#, false);
        check(r#"{"metadata": {"creationTimestamp": "2026-01-01T10:30:00Z"}}"#, true);
        let seen_again = r#"{"metadata": {"creationTimestamp": "2026-01-01T10:30:00Z"}, "lastTimestamp": "2026-01-01T11:50:00Z"}"#;
        check(seen_again, false);
        check("not json", false);
    }
}
