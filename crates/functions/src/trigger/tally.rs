//! How often triggers fired, written to their status at most twice a second: an event costs no write of its own. What was
//! counted in the half second before a crash is not counted; the calls themselves are durable before.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use minik8s_meta::trigger::Trigger;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const GATHER: Duration = Duration::from_millis(500);
const TRIES: usize = 5;

/// Namespace and name.
type Name = (String, String);

#[derive(Default)]
pub struct Tally {
    counted: Mutex<HashMap<Name, Fired>>,
    changed: Notify,
}

#[derive(Debug, Clone, Default)]
struct Fired {
    count: i64,
    last: Option<Timestamp>,
    /// How far changes of objects were looked at.
    resource_version: Option<String>,
}

impl Tally {
    pub fn count(&self, trigger: &Trigger, count: i64, resource_version: Option<String>) {
        let last = (count > 0).then(Timestamp::now);
        self.add(trigger, count, last, resource_version);
    }

    /// One that the clock knows nothing of, and must not.
    pub fn count_by_hand(&self, trigger: &Trigger) {
        self.add(trigger, 1, None, None);
    }

    fn add(&self, trigger: &Trigger, count: i64, last: Option<Timestamp>, resource_version: Option<String>) {
        let meta = &trigger.metadata;
        let name = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let mut counted = self.counted.lock();
        let fired = counted.entry(name).or_default();
        fired.count += count;
        fired.last = last.or(fired.last.take());
        fired.resource_version = resource_version.or(fired.resource_version.take());
        drop(counted);
        self.changed.notify_one();
    }
}

/// Until `stop`, and once more then.
pub async fn run(tally: Arc<Tally>, client: Client, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tally.changed.notified() => tokio::time::sleep(GATHER).await,
            () = stop.cancelled() => {}
        }
        let counted = std::mem::take(&mut *tally.counted.lock());
        for (name, fired) in counted {
            write(&client, &name, &fired).await;
        }
        if stop.is_cancelled() {
            return;
        }
    }
}

async fn write(client: &Client, (namespace, name): &Name, fired: &Fired) {
    let api: Api<Trigger> = Api::namespaced(client.clone(), namespace);
    for _ in 0..TRIES {
        let mut trigger = match api.get_opt(name).await {
            Ok(Some(trigger)) => trigger,
            Ok(None) => return,
            Err(error) => return tracing::debug!(%error, name, "cannot count what a trigger fired"),
        };
        let mut status = trigger.status.take().unwrap_or_default();
        status.fired += fired.count;
        status.last_fired = fired.last.map(Time).or(status.last_fired);
        status.resource_version = fired.resource_version.clone().or(status.resource_version);
        trigger.status = Some(status);
        match api.replace_status(name, &PostParams::default(), &trigger).await {
            Ok(_) => return,
            Err(kube::Error::Api(error)) if error.code == 409 => {}
            Err(error) => return tracing::debug!(%error, name, "cannot count what a trigger fired"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firing_by_hand_counts_and_leaves_the_clock_alone() {
        let (tally, mut trigger) = (Tally::default(), Trigger::default());
        trigger.metadata.name = Some("nightly".to_owned());
        tally.count_by_hand(&trigger);
        tally.count_by_hand(&trigger);
        let fired = tally.counted.lock().values().next().cloned().unwrap();
        assert_eq!((fired.count, fired.last), (2, None));
        tally.count(&trigger, 1, None);
        tally.count_by_hand(&trigger);
        let fired = tally.counted.lock().values().next().cloned().unwrap();
        assert!(fired.count == 4 && fired.last.is_some());
    }
}
