//! What is kept of a run: how it began and what happened outside since, nothing that follows from these.
//!
//! Beside the WorkflowRun there are packs (`p` and the number of their last event), of which the first says how the run
//! began, and single events (`e` and their number) since the last pack. Every change is one commit that also says what
//! was written last: whoever has been overtaken (by another leader, or by the run's deletion) changes nothing.
//! It never interprets events.

mod entry;

use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use minik8s_api::{OwnerVersion, RecordChange, RecordOutcome, Records, RecordsError};
use minik8s_asl::engine::Start;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use entry::{Entry, Instance};

/// So many events lie alone at most.
const PACK: usize = 64;
/// No pack becomes larger than this when it is read: who wrote it was us, but the file is on a disk.
const LARGEST_PACK: u64 = 64 * 1024 * 1024;

/// How a run began.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Beginning {
    /// The definition as it was then.
    pub definition: Value,
    pub start: Start,
}

/// All that is kept of a run.
#[derive(Debug, Clone)]
pub struct Kept {
    pub beginning: Beginning,
    pub events: Vec<Entry>,
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("somebody else has written the run's history, or the run is gone")]
    Overtaken,
    #[error("the store does not answer: {0}")]
    Store(#[from] RecordsError),
    #[error("the history cannot be read: {0}")]
    Unreadable(String),
}

#[derive(Serialize, Deserialize)]
struct Pack {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    beginning: Option<Beginning>,
    events: Vec<Entry>,
}

/// The history of one run, to be written on.
pub struct Journal {
    records: Arc<dyn Records>,
    uid: String,
    /// The record that was written last.
    last: (String, u64),
    /// How many events there are.
    count: u64,
    /// The first pack, while all other events are still alone.
    beginning: Option<Beginning>,
    alone: Vec<Entry>,
    alone_bytes: usize,
    /// Of all records, as they lie in the store.
    pub bytes: usize,
}

impl Journal {
    /// The first record of a run, unless the object has changed since it was seen.
    pub async fn begin(
        records: Arc<dyn Records>,
        uid: &str,
        owner: OwnerVersion<'_>,
        beginning: Beginning,
    ) -> Result<Self, JournalError> {
        let pack = Pack { beginning: Some(beginning), events: Vec::new() };
        let (name, value) = (pack_name(0), encode(&pack)?);
        let bytes = value.len();
        let create = vec![(name.clone(), value)];
        let change = RecordChange { create, owner: Some(owner), ..RecordChange::default() };
        let revision = written(records.write(uid, change).await?)?;
        let uid = uid.to_owned();
        let last = (name, revision);
        let beginning = pack.beginning;
        Ok(Journal { records, uid, last, count: 0, beginning, alone: Vec::new(), alone_bytes: 0, bytes })
    }

    /// What was kept of a run, if anything was.
    pub async fn open(records: Arc<dyn Records>, uid: &str) -> Result<Option<(Self, Kept)>, JournalError> {
        let found = records.read(uid).await?;
        let mut kept: Option<Kept> = None;
        let (mut packs, mut alone, mut bytes) = (0, Vec::new(), 0);
        // Single events come first by name.
        let (events, packed): (Vec<_>, Vec<_>) = found
            .iter()
            .filter(|record| !record.name.starts_with('a'))
            .partition(|record| record.name.starts_with('e'));
        for record in &packed {
            let Pack { beginning, events } = decode(&record.value)?;
            packs += 1;
            bytes += record.value.len();
            match (&mut kept, beginning) {
                (None, Some(beginning)) => kept = Some(Kept { beginning, events }),
                (Some(kept), _) => kept.events.extend(events),
                (None, None) => return Err(JournalError::Unreadable("its beginning is missing".to_owned())),
            }
        }
        let alone_bytes = events.iter().map(|record| record.value.len()).sum();
        bytes += alone_bytes;
        for record in &events {
            alone.push(decode::<Entry>(&record.value)?);
        }
        let Some(mut kept) = kept else { return Ok(None) };
        kept.events.extend(alone.iter().cloned());
        let last = events.last().or(packed.last()).map(|record| (record.name.clone(), record.revision));
        let journal = Journal {
            records,
            uid: uid.to_owned(),
            last: last.unwrap_or_default(),
            count: kept.events.len() as u64,
            beginning: Some(kept.beginning.clone())
                .filter(|_| packs == 1 && kept.events.len() == alone.len()),
            alone,
            alone_bytes,
            bytes,
        };
        Ok(Some((journal, kept)))
    }

    /// Adds an event; `last` is true when the run ends with it, and then all of a short run becomes one record.
    /// `used` are answers that the event was made of.
    pub async fn append(&mut self, event: Entry, last: bool, used: Vec<String>) -> Result<(), JournalError> {
        let number = self.count + 1;
        let pack_now = last || self.alone.len() + 1 >= PACK;
        let mut remove = used;
        let (name, value) = if pack_now {
            let first = number - self.alone.len() as u64;
            remove.extend((first..number).map(event_name));
            let beginning = self.beginning.clone();
            if beginning.is_some() {
                remove.push(pack_name(0));
            }
            let mut events = self.alone.clone();
            events.push(event.clone());
            (pack_name(number), encode(&Pack { beginning, events })?)
        } else {
            (event_name(number), encode(&event)?)
        };
        let size = value.len();
        let change = RecordChange {
            create: vec![(name.clone(), value)],
            remove,
            unchanged: Some((&self.last.0, self.last.1)),
            owner: None,
        };
        let revision = written(self.records.write(&self.uid, change).await?)?;
        self.last = (name, revision);
        self.count = number;
        if pack_now {
            let begun = self.beginning.take().is_some();
            self.bytes = if begun { size } else { self.bytes - self.alone_bytes + size };
            self.alone.clear();
            self.alone_bytes = 0;
        } else {
            self.bytes += size;
            self.alone_bytes += size;
            self.alone.push(event);
        }
        Ok(())
    }
}

fn written(outcome: RecordOutcome) -> Result<u64, JournalError> {
    match outcome {
        RecordOutcome::Written(revision) => Ok(revision),
        RecordOutcome::Conflict => Err(JournalError::Overtaken),
    }
}

fn pack_name(last: u64) -> String {
    format!("p{last:08}")
}

fn event_name(number: u64) -> String {
    format!("e{number:08}")
}

fn encode(value: &impl Serialize) -> Result<Bytes, JournalError> {
    let unreadable = |error: &dyn std::fmt::Display| JournalError::Unreadable(error.to_string());
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, value).map_err(|error| unreadable(&error))?;
    encoder.flush().map_err(|error| unreadable(&error))?;
    Ok(encoder.finish().map_err(|error| unreadable(&error))?.into())
}

fn decode<T: for<'de> Deserialize<'de>>(value: &[u8]) -> Result<T, JournalError> {
    let mut text = Vec::new();
    let read = ZlibDecoder::new(value).take(LARGEST_PACK).read_to_end(&mut text);
    read.map_err(|error| JournalError::Unreadable(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| JournalError::Unreadable(error.to_string()))
}
