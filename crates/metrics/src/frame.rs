//! The stream from an agent to the server: one JSON value per line.
//!
//! Names change seldom and numbers every second, so they travel apart: a [`Layout`] says which pods and containers
//! there are, and the [`Reading`]s after it are numbers in that order. A hundred pods cost some five kilobytes a
//! second and are read without looking up a single name. Times are milliseconds of the agent's own steady clock:
//! what its wall clock says, and when it is set, does not matter.

use serde::{Deserialize, Serialize};

/// Which numbers a reading has, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    pub pods: Vec<PodLayout>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodLayout {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub containers: Vec<ContainerLayout>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerLayout {
    pub name: String,
    /// Of this life of the container: counters begin anew with another.
    pub id: String,
}

/// Numbers per pod: bytes received and sent.
pub const PER_POD: usize = 2;
/// Numbers per container: CPU time in nanoseconds, working set in bytes, bytes read from and written to disks.
pub const PER_CONTAINER: usize = 4;

/// One measurement of everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    pub at: u64,
    pub node: NodeUsage,
    /// For each pod its own numbers, then those of each container; null is unknown.
    pub values: Vec<Option<u64>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeUsage {
    /// Busy time of all CPUs in nanoseconds.
    pub cpu: u64,
    pub working_set: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    Layout(Layout),
    Reading(Reading),
}

impl Line {
    pub fn encode(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("numbers and strings always serialise");
        line.push(b'\n');
        line
    }
}

/// Puts a stream's lines together again.
#[derive(Debug, Default)]
pub struct Frames {
    layout: Layout,
}

impl Frames {
    /// Takes a line; gives the reading if it was one that fits the layout before it.
    pub fn take(&mut self, line: &str) -> Result<Option<(&Layout, Reading)>, serde_json::Error> {
        match serde_json::from_str(line)? {
            Line::Layout(layout) => {
                self.layout = layout;
                Ok(None)
            }
            Line::Reading(reading) => {
                Ok((reading.values.len() == self.layout.width()).then_some((&self.layout, reading)))
            }
        }
    }
}

impl Layout {
    /// How many values a reading has.
    pub fn width(&self) -> usize {
        let of = |pod: &PodLayout| PER_POD + PER_CONTAINER * pod.containers.len();
        self.pods.iter().map(of).sum()
    }
}

/// The numbers if all of them are known.
pub fn known<const N: usize>(values: &[Option<u64>]) -> Option<[u64; N]> {
    let mut all = [0; N];
    for (place, value) in all.iter_mut().zip(values) {
        *place = (*value)?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_lead_back() {
        let container = ContainerLayout { name: "c".into(), id: "1".into() };
        let pod = PodLayout {
            namespace: "ns".into(),
            name: "p".into(),
            uid: "u".into(),
            containers: vec![container],
        };
        let layout = Layout { pods: vec![pod] };
        let values = vec![None, None, Some(1), Some(2), Some(3), Some(4)];
        let reading = Reading { at: 7, values, ..Reading::default() };
        let text = |line: Line| String::from_utf8(line.encode()).unwrap();
        let mut frames = Frames::default();
        assert_eq!(frames.take(&text(Line::Reading(reading.clone()))).unwrap(), None, "no layout yet");
        assert_eq!(frames.take(&text(Line::Layout(layout.clone()))).unwrap(), None);
        assert_eq!(
            frames.take(&text(Line::Reading(reading.clone()))).unwrap(),
            Some((&layout, reading.clone()))
        );
        let short = Reading { values: vec![None], ..reading };
        assert_eq!(frames.take(&text(Line::Reading(short))).unwrap(), None, "not of this layout");
        assert!(frames.take("{}").is_err());
        assert_eq!(known::<2>(&[Some(1), Some(2)]), Some([1, 2]));
        assert_eq!(known::<2>(&[Some(1), None]), None);
    }
}
