//! How to choose among the nodes that are possible.

use std::fmt;
use std::str::FromStr;

use crate::scores::{
    BalancedAllocation, ImageLocality, MeasuredUse, NodeAffinity, PodAffinity, PodCount, ResourcesUsed,
    Score, TaintToleration, TopologySpread,
};

/// Chosen for the whole cluster, or per pod by the annotation [`ANNOTATION`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Upstream's considerations with upstream's weights.
    #[default]
    Balanced,
    RoundRobin,
    Random,
    LeastPods,
    MostPods,
    LeastCpu,
    LeastMemory,
    Binpack,
}

pub const ANNOTATION: &str = "minik8s.io/strategy";

type Weighted = (&'static dyn Score, f64);

/// What every strategy respects before its own taste: wishes of pods and warnings of nodes.
const WISHES: [Weighted; 4] =
    [(&TaintToleration, 3.0), (&NodeAffinity, 2.0), (&TopologySpread, 2.0), (&PodAffinity, 2.0)];

const BALANCED: &[Weighted] = &[
    WISHES[0],
    WISHES[1],
    WISHES[2],
    WISHES[3],
    (&ResourcesUsed::Least, 1.0),
    (&BalancedAllocation, 1.0),
    (&ImageLocality, 1.0),
];
const LEAST_PODS: &[Weighted] = &[(&PodCount::Least, 1.0)];
const MOST_PODS: &[Weighted] = &[(&PodCount::Most, 1.0)];
const LEAST_CPU: &[Weighted] = &[(&MeasuredUse::Cpu, 1.0)];
const LEAST_MEMORY: &[Weighted] = &[(&MeasuredUse::Memory, 1.0)];
const BINPACK: &[Weighted] = &[(&ResourcesUsed::Most, 1.0)];

impl Strategy {
    pub const ALL: [Strategy; 8] = [
        Strategy::Balanced,
        Strategy::RoundRobin,
        Strategy::Random,
        Strategy::LeastPods,
        Strategy::MostPods,
        Strategy::LeastCpu,
        Strategy::LeastMemory,
        Strategy::Binpack,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Strategy::Balanced => "balanced",
            Strategy::RoundRobin => "round-robin",
            Strategy::Random => "random",
            Strategy::LeastPods => "least-pods",
            Strategy::MostPods => "most-pods",
            Strategy::LeastCpu => "least-cpu",
            Strategy::LeastMemory => "least-memory",
            Strategy::Binpack => "binpack",
        }
    }

    /// The scores that decide, with their weights. None: the choice does not look at the nodes.
    pub fn scores(self) -> &'static [Weighted] {
        match self {
            Strategy::Balanced => BALANCED,
            Strategy::RoundRobin | Strategy::Random => &[],
            Strategy::LeastPods => LEAST_PODS,
            Strategy::MostPods => MOST_PODS,
            Strategy::LeastCpu => LEAST_CPU,
            Strategy::LeastMemory => LEAST_MEMORY,
            Strategy::Binpack => BINPACK,
        }
    }

    /// Whether looking at a part of the nodes is good enough in a large cluster.
    pub fn may_sample(self) -> bool {
        matches!(self, Strategy::Balanced | Strategy::Random)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown scheduling strategy {0:?}; known: balanced, round-robin, random, least-pods, most-pods, least-cpu, least-memory, binpack"
)]
pub struct UnknownStrategy(String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        let found = Strategy::ALL.into_iter().find(|strategy| strategy.name() == name.trim());
        found.ok_or_else(|| UnknownStrategy(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.name().parse(), Ok(strategy));
        }
        let error = "best".parse::<Strategy>().unwrap_err().to_string();
        for strategy in Strategy::ALL {
            assert!(error.contains(strategy.name()), "{error}");
        }
    }
}
