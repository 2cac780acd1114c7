//! A watcher that goes on after every crash where it stopped, and must have seen everything at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::Value;
use tokio::sync::watch;

use super::{MAPS, Reachable, by_name, version};
use crate::harness::control_plane::Watch;

#[derive(Default)]
pub struct Witness {
    /// The objects as the events tell them.
    objects: BTreeMap<String, Value>,
    seen: BTreeSet<u64>,
    last: u64,
    /// The version of its first list: what was written before is in the list, not among the events.
    began: u64,
    /// The version of its last event, for others to see.
    progress: watch::Sender<u64>,
}

impl Witness {
    pub async fn run(mut self, mut reachable: Reachable, mut finished: watch::Receiver<bool>) -> Witness {
        loop {
            let known = reachable.borrow_and_update().clone();
            if let Some((_, credentials)) = known
                && let Ok(mut connection) = credentials.connect().await
            {
                if self.last == 0
                    && let Ok((200, list)) = connection.get(MAPS).await
                {
                    self.objects = by_name(&list);
                    self.last = version(&list);
                    self.began = self.last;
                }
                let path = format!("{MAPS}?watch=1&resourceVersion={}", self.last);
                if self.last > 0
                    && let Ok(mut watch) = connection.watch(&path).await
                {
                    let result = self.follow(&mut watch, &mut finished).await;
                    if let Ok(()) = result {
                        return self;
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Until the connection breaks (an error) or everything is over and quiet.
    async fn follow(&mut self, watch: &mut Watch, finished: &mut watch::Receiver<bool>) -> Result<()> {
        loop {
            let quiet = Duration::from_secs(if *finished.borrow() { 6 } else { 3600 });
            tokio::select! {
                event = watch.next() => match event? {
                    Some(event) => self.note(&event),
                    None => bail!("the stream ended"),
                },
                _ = finished.changed(), if !*finished.borrow() => {}
                _ = tokio::time::sleep(quiet) => return Ok(()),
            }
        }
    }

    fn note(&mut self, event: &Value) {
        let object = &event["object"];
        assert_ne!(event["type"], "ERROR", "{object}");
        let (name, version) =
            (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), version(object));
        assert!(version > self.last, "{version} after {}: told twice or out of order", self.last);
        self.last = version;
        self.progress.send_replace(version);
        self.seen.insert(version);
        let known = self.objects.contains_key(&name);
        match event["type"].as_str() {
            Some("ADDED") => assert!(!known, "{name} was there already"),
            Some("MODIFIED" | "DELETED") => assert!(known, "{name} was not there"),
            other => panic!("{other:?}"),
        }
        match event["type"] == "DELETED" {
            true => drop(self.objects.remove(&name)),
            false => drop(self.objects.insert(name, object.clone())),
        }
    }

    /// The events lead to what is there, and every acknowledged change was among them; what is not so is told.
    pub fn faults(&self, list: &Value, acknowledged: impl Iterator<Item = u64>) -> Vec<String> {
        let missed = acknowledged.filter(|version| *version > self.began && !self.seen.contains(version));
        let mut faults: Vec<String> =
            missed.map(|version| format!("version {version} was never seen")).collect();
        let found = by_name(list);
        let names: BTreeSet<&String> = found.keys().chain(self.objects.keys()).collect();
        let differ = names.into_iter().filter(|name| found.get(*name) != self.objects.get(*name));
        faults.extend(differ.map(|name| format!("{name} is not what its events say")));
        faults
    }

    /// Whoever has written something can wait until it was seen.
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    pub fn last_version(&self) -> u64 {
        self.last
    }

    pub fn events(&self) -> usize {
        self.seen.len()
    }
}
