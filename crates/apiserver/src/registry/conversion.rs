//! Between the version in which an object is stored and the one in which it is asked for, where a webhook converts.

use std::sync::Arc;

use bytes::Bytes;
use minik8s_store::{Change, Entry, Event, Watch, WatchItem};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::Registry;
use crate::api::Api;
use crate::catalog::Served;
use crate::codec;
use crate::error::{ApiError, Result};

/// Events that wait to be sent.
const BUFFERED: usize = 64;

/// The beginning of a stored object.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "apiVersion", borrow)]
    api_version: std::borrow::Cow<'a, str>,
}

impl Registry {
    /// Stored entries in the version that is served. Where no webhook converts, they are what they were.
    pub(super) async fn to_served(&self, served: &Served, mut entries: Vec<Entry>) -> Result<Vec<Entry>> {
        if served.conversion.is_none() {
            return Ok(entries);
        }
        let values: Vec<Bytes> = entries.iter().map(|entry| entry.value.clone()).collect();
        let converted = self.convert(served, values, &served.api_version).await?;
        for (entry, value) in entries.iter_mut().zip(converted) {
            entry.value = value;
        }
        Ok(entries)
    }

    /// An encoded object, whose content is of the served version, as it is to be stored.
    pub(super) async fn to_stored(&self, served: &Served, value: Bytes) -> Result<Bytes> {
        if served.conversion.is_none() || served.stored_as.is_none() {
            return Ok(value);
        }
        let mut object: Value = serde_json::from_slice(&value).map_err(ApiError::internal)?;
        object["apiVersion"] = served.api_version.as_str().into();
        let value = Bytes::from(codec::to_json(&object)?);
        let stored = self.convert(served, vec![value], &served.stored_api_version()).await?;
        stored.into_iter().next().ok_or_else(|| ApiError::internal("nothing was converted"))
    }

    /// Those that are of another version, all in one question for each version.
    async fn convert(&self, served: &Served, mut values: Vec<Bytes>, wanted: &str) -> Result<Vec<Bytes>> {
        let Some(conversion) = &served.conversion else { return Ok(values) };
        let versions: Vec<String> = values.iter().map(version_of).collect::<Result<_>>()?;
        let mut others: Vec<&String> = versions.iter().filter(|version| *version != wanted).collect();
        others.sort();
        others.dedup();
        for version in others {
            let places: Vec<usize> = (0..values.len()).filter(|place| versions[*place] == *version).collect();
            let objects = places.iter().map(|place| serde_json::from_slice(&values[*place]));
            let objects: Vec<Value> =
                objects.collect::<serde_json::Result<_>>().map_err(ApiError::internal)?;
            let converted = conversion.convert(self, objects, wanted).await.map_err(ApiError::internal)?;
            for (place, object) in places.into_iter().zip(converted) {
                values[place] = Bytes::from(codec::to_json(&object)?);
            }
        }
        Ok(values)
    }

    /// As the store tells of changes, in the version that is served.
    async fn convert_event(&self, served: &Served, mut event: Event) -> Result<Event> {
        let mut values: Vec<Bytes> = event.previous.iter().map(|entry| entry.value.clone()).collect();
        if let Change::Put(value) = &event.change {
            values.push(value.clone());
        }
        let mut converted = self.convert(served, values, &served.api_version).await?.into_iter();
        if let Some(previous) = &mut event.previous
            && let Some(value) = converted.next()
        {
            previous.value = value;
        }
        if let Some(value) = converted.next() {
            event.change = Change::Put(value);
        }
        Ok(event)
    }
}

pub(super) fn version_of(value: &Bytes) -> Result<String> {
    let head: Head<'_> = serde_json::from_slice(value).map_err(ApiError::internal)?;
    Ok(head.api_version.into_owned())
}

/// Follows a watch and hands on what it tells, converted, until nobody listens.
pub fn converted(api: Arc<Api>, served: Arc<Served>, mut watch: Watch) -> mpsc::Receiver<Result<WatchItem>> {
    let (sender, receiver) = mpsc::channel(BUFFERED);
    tokio::spawn(async move {
        loop {
            let item = tokio::select! {
                item = watch.next() => item,
                () = sender.closed() => return,
            };
            let item = match item {
                Some(Ok(WatchItem::Event(event))) => {
                    let event = Arc::unwrap_or_clone(event);
                    let converted = api.registry.convert_event(&served, event).await;
                    converted.map(|event| WatchItem::Event(Arc::new(event)))
                }
                Some(item) => item.map_err(ApiError::from),
                None => return,
            };
            let is_last = item.is_err();
            if sender.send(item).await.is_err() || is_last {
                return;
            }
        }
    });
    receiver
}
