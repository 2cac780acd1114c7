//! One entry of a run's history: an event, when it came, and which instance of a function it came from.
//!
//! It is written as `[time, event]`, or `[time, event, instance]` where an instance is known: entries of before there
//! were instances read on.

use std::fmt;

use minik8s_asl::engine::Event;
use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Milliseconds of the Unix epoch.
    pub time: i64,
    pub event: Event,
    pub instance: Option<Instance>,
}

/// Which instance carried out a task. The run does not depend on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub pod: String,
    /// Whether its start was waited for; unknown for an answer that the instance had kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<bool>,
}

impl Entry {
    pub fn new(time: i64, event: Event) -> Self {
        Entry { time, event, instance: None }
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = serializer.serialize_tuple(if self.instance.is_some() { 3 } else { 2 })?;
        parts.serialize_element(&self.time)?;
        parts.serialize_element(&self.event)?;
        if let Some(instance) = &self.instance {
            parts.serialize_element(instance)?;
        }
        parts.end()
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;
        impl<'de> Visitor<'de> for Parts {
            type Value = Entry;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("[time, event] or [time, event, instance]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Entry, A::Error> {
                let time = parts.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let event = parts.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                Ok(Entry { time, event, instance: parts.next_element()? })
            }
        }
        deserializer.deserialize_seq(Parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_reads_with_and_without_instance() {
        let plain = Entry::new(7, Event::TimerFired { timer: 3 });
        let text = serde_json::to_string(&plain).unwrap();
        assert_eq!(text, serde_json::to_string(&(7, Event::TimerFired { timer: 3 })).unwrap());
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), plain);
        let placed = Entry { instance: Some(Instance { pod: "f-1".to_owned(), cold: Some(true) }), ..plain };
        let text = serde_json::to_string(&placed).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), placed);
        assert!(serde_json::from_str::<Entry>("[7]").is_err());
        assert!(serde_json::from_str::<Entry>("{}").is_err());
    }
}
