//! `memory.available<100Mi,nodefs.available<10%`: below what a resource counts as short. Pure.
//!
//! The words are those of upstream's `--eviction-hard`. Images lie on the same file system as all else here, so
//! the `imagefs` signals are read from it too.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::signals::Resource;
use crate::quantity;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    Memory,
    Nodefs,
    NodefsInodes,
    Imagefs,
    ImagefsInodes,
    Pids,
}

/// The worst first: memory kills soonest.
const SIGNALS: [(Signal, &str, Resource); 6] = [
    (Signal::Memory, "memory.available", Resource::Memory),
    (Signal::Nodefs, "nodefs.available", Resource::Disk),
    (Signal::NodefsInodes, "nodefs.inodesFree", Resource::Disk),
    (Signal::Imagefs, "imagefs.available", Resource::Disk),
    (Signal::ImagefsInodes, "imagefs.inodesFree", Resource::Disk),
    (Signal::Pids, "pid.available", Resource::Pids),
];

impl Signal {
    pub fn resource(self) -> Resource {
        SIGNALS.iter().find(|(signal, ..)| *signal == self).map_or(Resource::Memory, |(.., r)| *r)
    }

    /// What it counts are bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Signal::Memory | Signal::Nodefs | Signal::Imagefs)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    Absolute(u64),
    /// Of the capacity.
    Percent(f64),
}

impl Amount {
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Amount::Absolute(amount) => amount,
            Amount::Percent(percent) => (capacity as f64 * percent / 100.0) as u64,
        }
    }
}

/// At most one per signal, in the order of their urgency. None at all: no pod is ever ended for want of room.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds(BTreeMap<Signal, Amount>);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ThresholdError {
    #[error("{0:?} is not of the form SIGNAL<AMOUNT")]
    Form(String),
    #[error("there is no signal {0:?}; there are {known}", known = known())]
    Signal(String),
    #[error("{signal} is given twice")]
    Twice { signal: String },
    #[error("{0:?} is neither a quantity nor a percentage")]
    Amount(String),
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds(BTreeMap::from([
            (Signal::Memory, Amount::Absolute(100 << 20)),
            (Signal::Nodefs, Amount::Percent(10.0)),
            (Signal::NodefsInodes, Amount::Percent(5.0)),
            (Signal::Pids, Amount::Percent(10.0)),
        ]))
    }
}

impl Thresholds {
    pub fn iter(&self) -> impl Iterator<Item = (Signal, Amount)> {
        self.0.iter().map(|(signal, amount)| (*signal, *amount))
    }
}

impl FromStr for Thresholds {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let mut all = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, amount) = part.split_once('<').ok_or_else(|| ThresholdError::Form(part.to_owned()))?;
            let found = SIGNALS.iter().find(|(_, known, _)| *known == name.trim());
            let (signal, ..) = found.ok_or_else(|| ThresholdError::Signal(name.to_owned()))?;
            if all.insert(*signal, parse_amount(amount.trim())?).is_some() {
                return Err(ThresholdError::Twice { signal: name.to_owned() });
            }
        }
        Ok(Thresholds(all))
    }
}

impl fmt::Display for Thresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (signal, amount)) in self.iter().enumerate() {
            let name = SIGNALS.iter().find(|(known, ..)| *known == signal).map_or("", |(_, name, _)| name);
            let comma = if n == 0 { "" } else { "," };
            match amount {
                Amount::Absolute(amount) if amount % (1 << 20) == 0 && signal.is_bytes() => {
                    write!(f, "{comma}{name}<{}Mi", amount >> 20)?;
                }
                Amount::Absolute(amount) => write!(f, "{comma}{name}<{amount}")?,
                Amount::Percent(percent) => write!(f, "{comma}{name}<{percent}%")?,
            }
        }
        Ok(())
    }
}

fn parse_amount(text: &str) -> Result<Amount, ThresholdError> {
    let wrong = || ThresholdError::Amount(text.to_owned());
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        return if (0.0..=100.0).contains(&percent) { Ok(Amount::Percent(percent)) } else { Err(wrong()) };
    }
    let amount = quantity::value(text).and_then(|amount| u64::try_from(amount).ok());
    amount.map(Amount::Absolute).ok_or_else(wrong)
}

fn known() -> String {
    SIGNALS.map(|(_, name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |text: &str, want: &str| {
            let shown = text.parse::<Thresholds>().map_or_else(|e| e.to_string(), |t| t.to_string());
            assert!(shown.contains(want) && (shown.is_empty() == want.is_empty()), "{text}: {shown}");
        };
        check("", "");
        check("memory.available<100Mi, nodefs.available<10%", "memory.available<100Mi,nodefs.available<10%");
        check("pid.available<500", "pid.available<500");
        check("nodefs.inodesFree<2.5%", "nodefs.inodesFree<2.5%");
        check("memory.available", "not of the form");
        check("memory<1Gi", "there is no signal \"memory\"; there are memory.available, nodefs.available");
        check("memory.available<lots", "neither a quantity nor a percentage");
        check("memory.available<101%", "neither a quantity nor a percentage");
        check("memory.available<-1", "neither a quantity nor a percentage");
        check("pid.available<1,pid.available<2", "given twice");
        let default = Thresholds::default();
        assert_eq!(default.to_string().parse(), Ok(default));
    }

    #[test]
    fn amounts() {
        assert_eq!(Amount::Percent(10.0).of(1000), 100);
        assert_eq!(Amount::Absolute(7).of(1000), 7);
    }
}
