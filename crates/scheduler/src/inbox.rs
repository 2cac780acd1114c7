//! What the scheduler has still to hear.
//!
//! Watches tell of changes from where they must not wait, and the scheduler may be busy for long. So changes of one
//! object are put together: who reads late hears of its last state once. What waits is bounded by the number of objects,
//! however often they change, and by the requests in flight. It never loses the last state of an object, nor that one
//! went before another of the same name came.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use minik8s_runtime::{Key, Object, key_of};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::scheduler::{Change, Event};

/// Read by one, written to by many.
#[derive(Clone, Default)]
pub struct Inbox {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    filled: Notify,
}

/// Events in their order, and where the newest of each object stands.
#[derive(Default)]
struct Waiting {
    next: u64,
    events: BTreeMap<u64, Event>,
    newest: HashMap<Subject, u64>,
}

/// What an event is about, if a later one may be put together with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Object(&'static str, Key),
    Usage,
}

impl Inbox {
    pub fn send(&self, event: Event) {
        self.shared.waiting.lock().add(event);
        self.shared.filled.notify_one();
    }

    pub fn try_recv(&self) -> Option<Event> {
        self.shared.waiting.lock().take()
    }

    pub async fn recv(&self) -> Event {
        loop {
            if let Some(event) = self.try_recv() {
                return event;
            }
            self.shared.filled.notified().await;
        }
    }
}

impl Waiting {
    fn add(&mut self, mut event: Event) {
        let subject = subject(&event);
        let place = subject.as_ref().and_then(|subject| self.newest.get(subject).copied());
        if let Some((place, before)) = place.and_then(|place| Some((place, self.events.get_mut(&place)?))) {
            match follow(before, event) {
                Ok(Seen::Something) => return,
                Ok(Seen::Nothing) => {
                    self.events.remove(&place);
                    if let Some(subject) = subject {
                        self.newest.remove(&subject);
                    }
                    return;
                }
                Err(another) => event = another,
            }
        }
        self.newest.extend(subject.map(|subject| (subject, self.next)));
        self.events.insert(self.next, event);
        self.next += 1;
    }

    fn take(&mut self) -> Option<Event> {
        let (place, event) = self.events.pop_first()?;
        if let Some(subject) = subject(&event)
            && self.newest.get(&subject) == Some(&place)
        {
            self.newest.remove(&subject);
        }
        Some(event)
    }
}

fn subject(event: &Event) -> Option<Subject> {
    fn of<K: Object>(kind: &'static str, (old, new): &Change<K>) -> Option<Subject> {
        let object = new.as_ref().or(old.as_ref())?;
        Some(Subject::Object(kind, key_of(&**object)))
    }
    match event {
        Event::Pod(change) => of("Pod", change),
        Event::Node(change) => of("Node", change),
        Event::Namespace(change) => of("Namespace", change),
        Event::Claim(change) => of("PersistentVolumeClaim", change),
        Event::Volume(change) => of("PersistentVolume", change),
        Event::Class(change) => of("StorageClass", change),
        Event::CsiNode(change) => of("CSINode", change),
        Event::CsiDriver(change) => of("CSIDriver", change),
        Event::CsiCapacity(change) => of("CSIStorageCapacity", change),
        Event::Budget(change) => of("PodDisruptionBudget", change),
        Event::Settings(change) => of("ConfigMap", change),
        Event::DeviceClaim(change) => of("ResourceClaim", change),
        Event::Slice(change) => of("ResourceSlice", change),
        Event::DeviceClass(change) => of("DeviceClass", change),
        Event::TaintRule(change) => of("DeviceTaintRule", change),
        Event::Measured(_) => Some(Subject::Usage),
        Event::Bound { .. } => None,
    }
}

/// What two changes come to.
enum Seen {
    Something,
    /// The object came and went.
    Nothing,
}

/// Makes two events of one subject into one, or gives the later one back.
fn follow(before: &mut Event, event: Event) -> Result<Seen, Event> {
    match (before, event) {
        (Event::Pod(before), Event::Pod(after)) => join(before, after).map_err(Event::Pod),
        (Event::Node(before), Event::Node(after)) => join(before, after).map_err(Event::Node),
        (Event::Namespace(before), Event::Namespace(after)) => join(before, after).map_err(Event::Namespace),
        (Event::Claim(before), Event::Claim(after)) => join(before, after).map_err(Event::Claim),
        (Event::Volume(before), Event::Volume(after)) => join(before, after).map_err(Event::Volume),
        (Event::Class(before), Event::Class(after)) => join(before, after).map_err(Event::Class),
        (Event::CsiNode(before), Event::CsiNode(after)) => join(before, after).map_err(Event::CsiNode),
        (Event::CsiDriver(before), Event::CsiDriver(after)) => join(before, after).map_err(Event::CsiDriver),
        (Event::CsiCapacity(before), Event::CsiCapacity(after)) => {
            join(before, after).map_err(Event::CsiCapacity)
        }
        (Event::Budget(before), Event::Budget(after)) => join(before, after).map_err(Event::Budget),
        (Event::Settings(before), Event::Settings(after)) => join(before, after).map_err(Event::Settings),
        (Event::DeviceClaim(before), Event::DeviceClaim(after)) => {
            join(before, after).map_err(Event::DeviceClaim)
        }
        (Event::Slice(before), Event::Slice(after)) => join(before, after).map_err(Event::Slice),
        (Event::DeviceClass(before), Event::DeviceClass(after)) => {
            join(before, after).map_err(Event::DeviceClass)
        }
        (Event::TaintRule(before), Event::TaintRule(after)) => join(before, after).map_err(Event::TaintRule),
        (Event::Measured(before), Event::Measured(after)) => {
            *before = after;
            Ok(Seen::Something)
        }
        (_, event) => Err(event),
    }
}

/// An object that went and another of its name that came stay two changes.
fn join<K>(before: &mut Change<K>, after: Change<K>) -> Result<Seen, Change<K>> {
    if before.1.is_none() || after.0.is_none() {
        return Err(after);
    }
    before.1 = after.1;
    Ok(if before.0.is_none() && before.1.is_none() { Seen::Nothing } else { Seen::Something })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;

    use super::*;

    fn pod(name: &str, version: u32) -> Option<Arc<Pod>> {
        let meta = json!({"name": name, "namespace": "ns", "resourceVersion": version.to_string()});
        Some(Arc::new(serde_json::from_value(json!({"metadata": meta})).unwrap()))
    }

    fn shown(event: &Event) -> String {
        let version = |pod: &Option<Arc<Pod>>| {
            let version = pod.as_ref().and_then(|pod| pod.metadata.resource_version.clone());
            version.unwrap_or_else(|| "-".to_owned())
        };
        match event {
            Event::Pod((old, new)) => format!("{}>{}", version(old), version(new)),
            Event::Node(_) => "node".to_owned(),
            Event::Measured(metrics) => format!("measured {}", metrics.len()),
            _ => "other".to_owned(),
        }
    }

    fn heard(events: Vec<Event>) -> Vec<String> {
        let inbox = Inbox::default();
        events.into_iter().for_each(|event| inbox.send(event));
        let heard = std::iter::from_fn(|| inbox.try_recv()).map(|event| shown(&event)).collect();
        assert!(inbox.shared.waiting.lock().newest.is_empty());
        heard
    }

    #[test]
    fn changes_of_one_object_are_put_together() {
        let check = |events: Vec<Event>, expected: &[&str]| assert_eq!(heard(events), expected);
        let a = |version| pod("a", version);
        let change = |old, new| Event::Pod((old, new));
        check(vec![change(None, a(1)), change(a(1), a(2)), change(a(2), a(3))], &["->3"]);
        check(vec![change(a(1), a(2)), change(a(2), None)], &["1>-"]);
        check(vec![change(None, a(1)), change(a(1), None)], &[]);
        check(vec![change(a(1), None), change(None, a(5)), change(a(5), a(6))], &["1>-", "->6"]);
        let twice = vec![change(a(1), None), change(None, a(5)), change(a(5), None), change(None, a(7))];
        check(twice, &["1>-", "->7"]);
        // Each in its place, and others' are their own.
        let node = || Event::Node((None, Some(Arc::new(Node::default()))));
        check(
            vec![change(None, a(1)), node(), change(None, pod("b", 2)), change(a(1), a(3))],
            &["->3", "node", "->2"],
        );
        check(
            vec![Event::Measured(Vec::new()), Event::Measured(vec![("n".to_owned(), None)])],
            &["measured 1"],
        );
    }

    #[test]
    fn inbox_that_nobody_reads_stays_small() {
        let inbox = Inbox::default();
        for version in 1..100_000 {
            let name = format!("p{}", version % 10);
            inbox.send(Event::Pod((pod(&name, version - 1), pod(&name, version))));
            inbox.send(Event::Measured(Vec::new()));
        }
        let waiting = inbox.shared.waiting.lock();
        assert_eq!((waiting.events.len(), waiting.newest.len()), (11, 11));
    }

    #[tokio::test]
    async fn reader_that_waits_is_woken() {
        let inbox = Inbox::default();
        let reader = inbox.clone();
        let read = tokio::spawn(async move { shown(&reader.recv().await) });
        tokio::task::yield_now().await;
        inbox.send(Event::Measured(Vec::new()));
        assert_eq!(read.await.unwrap(), "measured 0");
    }
}
