//! Tells the scheduler what nodes really use.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_metrics::{History, NodeUse};
use minik8s_runtime::Caches;
use tokio_util::sync::CancellationToken;

use crate::inbox::Inbox;
use crate::scheduler::Event;
use crate::snapshot::Usage;

/// Short enough to see what was placed a moment ago, long enough not to follow every twitch.
const WINDOW: SignedDuration = SignedDuration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

/// Tells until `stop`: when there are new metrics, at most once a second.
pub async fn tell(metrics: Arc<History>, caches: Arc<Caches>, inbox: Inbox, stop: CancellationToken) {
    let nodes = caches.of::<Node>();
    let mut changes = metrics.changes();
    loop {
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
        let now = Timestamp::now();
        let names = nodes.list().into_iter().filter_map(|node| node.metadata.name.clone());
        let measured = names.map(|name| {
            let used = measured_use(&metrics, &name, now);
            (name, used)
        });
        inbox.send(Event::Measured(measured.collect()));
        tokio::time::sleep(PAUSE).await;
    }
}

/// What a node uses now, as far as decisions are concerned.
pub fn measured_use(metrics: &History, node: &str, now: Timestamp) -> Option<Usage> {
    metrics.node(node, WINDOW, now).map(usage)
}

fn usage(used: NodeUse) -> Usage {
    let amount = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    Usage { cpu_millis: amount(used.cpu_nanos / 1_000_000), memory_bytes: amount(used.memory_bytes) }
}
