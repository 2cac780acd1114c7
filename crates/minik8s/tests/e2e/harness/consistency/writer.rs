//! One client that writes without pause and remembers what it was told.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{MAPS, Reachable, by_name, version};
use crate::harness::control_plane::Connection;

/// Names are this writer's own: nobody else changes its objects.
pub struct Writer {
    id: usize,
    turn: u64,
    pause: Duration,
    /// What must be there: name to value.
    present: BTreeMap<String, String>,
    /// The one write that was sent and not answered.
    doubtful: Option<Write>,
    /// Values of creates with a generated name: acknowledged or not.
    generated: BTreeMap<String, bool>,
    /// The versions of all acknowledged changes.
    pub acknowledged: Vec<u64>,
}

#[derive(Debug, Clone)]
enum Write {
    Create(String, String),
    Generate(String),
    Update(String, String),
    Delete(String),
}

impl Writer {
    pub fn new(id: usize) -> Writer {
        Writer {
            id,
            turn: 0,
            pause: Duration::ZERO,
            present: BTreeMap::new(),
            doubtful: None,
            generated: BTreeMap::new(),
            acknowledged: Vec::new(),
        }
    }

    /// Leaves so much time between writes.
    pub fn pausing(self, pause: Duration) -> Writer {
        Writer { pause, ..self }
    }

    pub async fn run(mut self, mut reachable: Reachable, finished: watch::Receiver<bool>) -> Writer {
        while !*finished.borrow() {
            let known = reachable.borrow_and_update().clone();
            let Some((_, credentials)) = known else {
                let _ = reachable.changed().await;
                continue;
            };
            let Ok(mut connection) = credentials.connect().await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            // What became of the unanswered write is looked up, as any client would.
            if self.settle(&mut connection).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            while !*finished.borrow() && self.write(&mut connection).await.is_ok() {
                if !self.pause.is_zero() {
                    tokio::time::sleep(self.pause).await;
                }
            }
        }
        self
    }

    /// One write; an error means that its fate is unknown.
    async fn write(&mut self, connection: &mut Connection) -> Result<()> {
        self.turn += 1;
        let value = format!("{}-{}", self.id, self.turn);
        let oldest = self.present.keys().next().cloned();
        let write = match (self.turn % 5, oldest) {
            (0, Some(name)) => Write::Delete(name),
            (1 | 2, Some(name)) => Write::Update(name, value),
            (3, _) => Write::Generate(value),
            _ => Write::Create(format!("w{}-{:06}", self.id, self.turn), value),
        };
        self.doubtful = Some(write.clone());
        if let Write::Generate(value) = &write {
            self.generated.insert(value.clone(), false);
        }
        let (code, answer) = send(connection, &write).await?;
        // A server that failed does not know itself what reached its disk.
        anyhow::ensure!(code < 500, "{code}: {answer}");
        assert!(matches!(code, 200 | 201), "{write:?}: {code} {answer}");
        self.doubtful = None;
        self.note(&write);
        if !matches!(write, Write::Delete(_)) {
            self.acknowledged.push(version(&answer));
        }
        Ok(())
    }

    fn note(&mut self, write: &Write) {
        match write {
            Write::Create(name, value) | Write::Update(name, value) => {
                self.present.insert(name.clone(), value.clone());
            }
            Write::Generate(value) => {
                self.generated.insert(value.clone(), true);
            }
            Write::Delete(name) => {
                self.present.remove(name);
            }
        }
    }

    async fn settle(&mut self, connection: &mut Connection) -> Result<()> {
        let Some(write) = self.doubtful.clone() else { return Ok(()) };
        let (name, wanted) = match &write {
            Write::Create(name, value) | Write::Update(name, value) => (name, Some(value)),
            Write::Delete(name) => (name, None),
            Write::Generate(_) => {
                self.doubtful = None;
                return Ok(());
            }
        };
        let (code, found) = connection.get(&format!("{MAPS}/{name}")).await?;
        anyhow::ensure!(code < 500, "{code}: {found}");
        let found = (code == 200).then(|| found["data"]["value"].as_str().unwrap_or_default().to_owned());
        let before = self.present.get(name).cloned();
        if found.as_ref() != wanted {
            assert_eq!(found, before, "{write:?} was neither done nor left undone");
            // It may still be on its way to a store that was out of reach. Where it is done once more, it cannot be done later.
            let (code, answer) = send(connection, &write).await?;
            anyhow::ensure!(code < 500, "{code}: {answer}");
            let has_arrived = matches!((&write, code), (Write::Create(..), 409) | (Write::Delete(_), 404));
            assert!(has_arrived || matches!(code, 200 | 201), "{write:?}: {code} {answer}");
            if !has_arrived && !matches!(write, Write::Delete(_)) {
                self.acknowledged.push(version(&answer));
            }
        }
        self.note(&write);
        self.doubtful = None;
        Ok(())
    }

    /// Everything acknowledged is in the list, once, and as it was acknowledged; what is not is told.
    pub fn faults(&self, list: &Value) -> Vec<String> {
        let found = by_name(list);
        let mut faults = Vec::new();
        for (name, value) in &self.present {
            let doubtful = matches!(&self.doubtful, Some(Write::Update(other, _) | Write::Delete(other)) if other == name);
            match found.get(name) {
                _ if doubtful => {}
                None => faults.push(format!("{name} is lost")),
                Some(object) if object["data"]["value"] != value.as_str() => {
                    faults.push(format!("{name} is {}, not {value}", object["data"]["value"]));
                }
                Some(_) => {}
            }
        }
        let prefix = format!("w{}-", self.id);
        for name in found.keys().filter(|name| name.starts_with(&prefix)) {
            let doubtful = matches!(&self.doubtful, Some(Write::Create(other, _)) if other == name);
            if !self.present.contains_key(name) && !doubtful {
                faults.push(format!("{name} was deleted or never made"));
            }
        }
        for (value, acknowledged) in &self.generated {
            let count = found.values().filter(|object| object["data"]["value"] == value.as_str()).count();
            if count > 1 || (count == 0 && *acknowledged) {
                faults.push(format!("{value} is there {count} times"));
            }
        }
        faults
    }
}

async fn send(connection: &mut Connection, write: &Write) -> Result<(u16, Value)> {
    let body = |name: Value, value: &str| json!({"metadata": name, "data": {"value": value}});
    let json_type = "application/json";
    match write {
        Write::Create(name, value) => {
            connection.send(Method::POST, MAPS, json_type, &body(json!({"name": name}), value)).await
        }
        Write::Generate(value) => {
            connection
                .send(Method::POST, MAPS, json_type, &body(json!({"generateName": "generated-"}), value))
                .await
        }
        Write::Update(name, value) => {
            let patch = json!({"data": {"value": value}});
            connection
                .send(Method::PATCH, &format!("{MAPS}/{name}"), "application/merge-patch+json", &patch)
                .await
        }
        Write::Delete(name) => {
            connection.send(Method::DELETE, &format!("{MAPS}/{name}"), "", &Value::Null).await
        }
    }
}
