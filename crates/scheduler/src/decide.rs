//! One decision: (pod, snapshot) → node, or the reasons why not.
//!
//! Pure but for the [`Chooser`], which remembers what fairness needs: where the last round ended, and a
//! random sequence that tests can seed.

use std::collections::BTreeMap;

use crate::filters::{self, Check, Refusal};
use crate::scores::Rating;
use crate::snapshot::{NodeInfo, PodInfo, Slot, Snapshot};
use crate::strategy::Strategy;
use crate::waking::Waking;

/// In clusters larger than this only a part of the possible nodes is compared.
const COMPARE_AT_LEAST: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Place(String),
    Refuse(Refused),
}

/// Why no node would do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Refused {
    pub nodes: usize,
    /// Per node: the first filter that refused it and its reasons.
    pub by_node: BTreeMap<String, (&'static str, Refusal)>,
    pub helped_by: Waking,
}

/// What one decision leaves to the next.
pub struct Chooser {
    /// Where to start looking, so that all nodes get their turn.
    start: Slot,
    last: Option<String>,
    random: u64,
}

impl Chooser {
    pub fn new(seed: u64) -> Self {
        Chooser { start: 0, last: None, random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % bound.max(1) as u64) as usize
    }
}

pub fn decide(pod: &PodInfo, snapshot: &Snapshot, strategy: Strategy, chooser: &mut Chooser) -> Decision {
    let checks = prepare(pod, snapshot);
    let enough = if strategy.may_sample() { sample_size(snapshot.node_count()) } else { usize::MAX };
    let slots = snapshot.slot_count();
    let mut possible: Vec<&NodeInfo> = Vec::new();
    let mut refused = Refused { nodes: snapshot.node_count(), ..Refused::default() };
    let mut looked_at = 0;
    for i in 0..slots {
        let Some(node) = snapshot.node_at((chooser.start + i) % slots) else { continue };
        looked_at = i + 1;
        match first_refusal(&checks, node) {
            None => possible.push(node),
            // Reasons are only needed if every node refuses.
            Some(_) if !possible.is_empty() => {}
            Some((index, refusal)) => {
                refused.helped_by = refused.helped_by | checks[index].1;
                refused.by_node.insert(node.name.clone(), (checks[index].0, refusal));
            }
        }
        if possible.len() >= enough {
            break;
        }
    }
    chooser.start = if slots == 0 { 0 } else { (chooser.start + looked_at) % slots };
    if possible.is_empty() {
        refused.helped_by = refused.helped_by | Waking::NODE;
        return Decision::Refuse(refused);
    }
    let node = choose(pod, snapshot, strategy, &possible, chooser);
    Decision::Place(node)
}

/// Why one node would not take the pod; None if it would.
pub fn refusal(pod: &PodInfo, snapshot: &Snapshot, node: &NodeInfo) -> Option<Refusal> {
    first_refusal(&prepare(pod, snapshot), node).map(|(_, refusal)| refusal)
}

/// All nodes that no filter refuses.
pub fn possible_nodes<'a>(pod: &PodInfo, snapshot: &'a Snapshot) -> Vec<&'a NodeInfo> {
    let checks = prepare(pod, snapshot);
    snapshot.nodes().filter(|node| first_refusal(&checks, node).is_none()).collect()
}

type Prepared<'a> = Vec<(&'static str, Waking, Check<'a>)>;

fn prepare<'a>(pod: &'a PodInfo, snapshot: &'a Snapshot) -> Prepared<'a> {
    let prepared = filters::ALL
        .iter()
        .filter_map(|filter| Some((filter.name(), filter.helped_by(), filter.prepare(pod, snapshot)?)));
    prepared.collect()
}

fn first_refusal(checks: &Prepared<'_>, node: &NodeInfo) -> Option<(usize, Refusal)> {
    checks.iter().enumerate().find_map(|(i, (_, _, check))| check(node).err().map(|refusal| (i, refusal)))
}

/// Comparing half of the nodes of a middling cluster, or a twentieth of a huge one, is as good as all.
fn sample_size(nodes: usize) -> usize {
    if nodes <= COMPARE_AT_LEAST {
        return nodes;
    }
    let percent = 50usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(COMPARE_AT_LEAST)
}

fn choose(
    pod: &PodInfo,
    snapshot: &Snapshot,
    strategy: Strategy,
    possible: &[&NodeInfo],
    chooser: &mut Chooser,
) -> String {
    let chosen = match strategy {
        Strategy::Random => possible[chooser.below(possible.len())],
        Strategy::RoundRobin => next_in_round(possible, chooser.last.as_deref()),
        _ => best(pod, snapshot, strategy, possible, chooser),
    };
    chooser.last = Some(chosen.name.clone());
    chosen.name.clone()
}

/// The next by name after the last one taken.
fn next_in_round<'a>(possible: &[&'a NodeInfo], last: Option<&str>) -> &'a NodeInfo {
    let mut by_name: Vec<&NodeInfo> = possible.to_vec();
    by_name.sort_by(|a, b| a.name.cmp(&b.name));
    let after = by_name.iter().find(|node| last.is_some_and(|last| node.name.as_str() > last));
    after.copied().unwrap_or(by_name[0])
}

fn best<'a>(
    pod: &PodInfo,
    snapshot: &Snapshot,
    strategy: Strategy,
    possible: &[&'a NodeInfo],
    chooser: &mut Chooser,
) -> &'a NodeInfo {
    if let [only] = possible {
        return only;
    }
    let mut totals = vec![0.0; possible.len()];
    weigh(pod, snapshot, strategy, possible, |_, weight, values| {
        for (total, value) in totals.iter_mut().zip(values) {
            *total += weight * value;
        }
    });
    let most = totals.iter().copied().fold(f64::MIN, f64::max);
    let ties: Vec<usize> = (0..possible.len()).filter(|&i| totals[i] >= most - 1e-9).collect();
    possible[ties[chooser.below(ties.len())]]
}

/// Asks every score of the strategy that matters to the pod what it gives each of the nodes, 0 to 100, and tells it with the
/// score's name and weight.
pub fn weigh(
    pod: &PodInfo,
    snapshot: &Snapshot,
    strategy: Strategy,
    possible: &[&NodeInfo],
    mut each: impl FnMut(&'static str, f64, &[f64]),
) {
    let mut values = vec![0.0; possible.len()];
    for (score, weight) in strategy.scores() {
        let Some(Rating { scale, rate }) = score.prepare(pod, snapshot) else { continue };
        for (value, node) in values.iter_mut().zip(possible) {
            *value = rate(node);
        }
        scale.apply(&mut values);
        each(score.name(), *weight, &values);
    }
}
