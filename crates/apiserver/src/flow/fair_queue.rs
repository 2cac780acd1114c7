//! Who gets the next seat: pure, without clock or tasks.
//!
//! Seats belong to priority levels. A level always gets those that it does not lend; beyond that it may take what others
//! lend and do not use. A seat that becomes free goes to the level that has the smallest part of its own, there to the
//! flow that holds the fewest, and among equals to who waits longest: a flow with a thousand requests delays the first
//! request of another by no more than one of its own. Queues are bounded; what does not fit is refused, and the longest
//! queue of a level makes room for a shorter one. Nothing is ever taken from who sits.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// What one priority level may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Its own seats.
    pub seats: usize,
    /// So many of them others may use while it does not.
    pub lendable: usize,
    /// So many of others' it may use.
    pub borrowable: usize,
    pub waiting: usize,
    pub waiting_per_flow: usize,
}

impl Bounds {
    fn kept(&self) -> usize {
        self.seats.saturating_sub(self.lendable)
    }
}

/// What became of a request for a seat.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered {
    Seated,
    /// With the number by which to give up.
    Queued(u64),
    Full,
}

/// How a level stands, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LevelCounts {
    pub seats: usize,
    pub taken: usize,
    pub waiting: usize,
    pub dispatched: u64,
    pub rejected: u64,
}

/// `F` is a flow within a level, `T` is how those who wait are told.
pub struct FairQueue<F, T> {
    seats: usize,
    taken: usize,
    next_turn: u64,
    levels: BTreeMap<Arc<str>, Level<F, T>>,
}

struct Level<F, T> {
    bounds: Bounds,
    /// Its object is gone: it is forgotten when nobody sits or waits there.
    is_retired: bool,
    counts: LevelCounts,
    flows: HashMap<F, Flow<T>>,
}

struct Flow<T> {
    seats: usize,
    waiting: VecDeque<(u64, T)>,
}

impl<F: Clone + Eq + std::hash::Hash, T> FairQueue<F, T> {
    pub fn new(seats: usize) -> Self {
        FairQueue { seats, taken: 0, next_turn: 0, levels: BTreeMap::new() }
    }

    /// The levels as they are from now on. Returns the bells of those who have seats by it.
    pub fn configure(&mut self, levels: &BTreeMap<Arc<str>, Bounds>) -> Vec<T> {
        for (name, level) in &mut self.levels {
            level.is_retired = !levels.contains_key(name);
        }
        for (name, bounds) in levels {
            let level = self.level(name);
            level.bounds = *bounds;
            level.is_retired = false;
        }
        self.levels.retain(|_, level| !level.is_retired || !level.flows.is_empty());
        std::iter::from_fn(|| self.seat_next()).collect()
    }

    pub fn counts(&self) -> impl Iterator<Item = (&Arc<str>, LevelCounts)> {
        self.levels
            .iter()
            .map(|(name, level)| (name, LevelCounts { seats: level.bounds.seats, ..level.counts }))
    }

    /// A seat, or a place in the flow's queue.
    pub fn enter(&mut self, name: &Arc<str>, flow: &F, bell: impl FnOnce() -> T) -> Entered {
        self.level(name);
        let has_room = self.has_room(name);
        let turn = self.next_turn;
        let level = self.level(name);
        if has_room {
            level.sit(flow);
            self.taken += 1;
            return Entered::Seated;
        }
        if !level.may_wait(flow) {
            level.counts.rejected += 1;
            self.forget(name, flow);
            return Entered::Full;
        }
        level.counts.waiting += 1;
        level.flow(flow).waiting.push_back((turn, bell()));
        self.next_turn += 1;
        Entered::Queued(turn)
    }

    /// Gives a seat back. Returns the bell of who has it now.
    pub fn leave(&mut self, name: &Arc<str>, flow: &F) -> Option<T> {
        self.taken = self.taken.saturating_sub(1);
        if let Some(level) = self.levels.get_mut(name) {
            level.counts.taken = level.counts.taken.saturating_sub(1);
            if let Some(flow) = level.flows.get_mut(flow) {
                flow.seats = flow.seats.saturating_sub(1);
            }
        }
        self.forget(name, flow);
        self.seat_next()
    }

    /// Leaves the queue. False if it is too late: whoever has heard the bell has a seat to give back.
    pub fn give_up(&mut self, name: &Arc<str>, flow: &F, turn: u64) -> bool {
        let Some(level) = self.levels.get_mut(name) else { return false };
        let Some(own) = level.flows.get_mut(flow) else { return false };
        let Some(place) = own.waiting.iter().position(|(waiting, _)| *waiting == turn) else { return false };
        own.waiting.remove(place);
        level.counts.waiting -= 1;
        level.counts.rejected += 1;
        self.forget(name, flow);
        true
    }

    fn seat_next(&mut self) -> Option<T> {
        let seatable =
            self.levels.iter().filter(|(name, level)| level.counts.waiting > 0 && self.has_room(name));
        // A part of its own in millionths: levels have a few hundred seats.
        let part = |level: &Level<F, T>| level.counts.taken * 1_000_000 / level.bounds.seats.max(1);
        let name = seatable.min_by_key(|(_, level)| part(level))?.0.clone();
        let level = self.levels.get_mut(&name)?;
        let ranked =
            level.flows.iter().filter_map(|(flow, own)| Some(((own.seats, own.waiting.front()?.0), flow)));
        let flow = ranked.min_by_key(|(rank, _)| *rank)?.1.clone();
        let (_, bell) = level.flow(&flow).waiting.pop_front()?;
        level.counts.waiting -= 1;
        level.sit(&flow);
        self.taken += 1;
        Some(bell)
    }

    fn has_room(&self, name: &Arc<str>) -> bool {
        let Some(level) = self.levels.get(name) else { return false };
        let taken = level.counts.taken;
        if taken < level.bounds.kept() {
            return true;
        }
        let others = self.levels.iter().filter(|(other, level)| *other != name && !level.is_retired);
        let reserved: usize =
            others.map(|(_, other)| other.bounds.kept().saturating_sub(other.counts.taken)).sum();
        taken < level.bounds.seats.saturating_add(level.bounds.borrowable)
            && self.taken + reserved < self.seats
    }

    /// One that is not configured has nothing of its own, but borrows: its object went while a request was on its way.
    fn level(&mut self, name: &Arc<str>) -> &mut Level<F, T> {
        let bounds = Bounds { seats: 0, lendable: 0, borrowable: 1, waiting: 0, waiting_per_flow: 0 };
        let fresh =
            || Level { bounds, is_retired: true, counts: LevelCounts::default(), flows: HashMap::new() };
        self.levels.entry(name.clone()).or_insert_with(fresh)
    }

    fn forget(&mut self, name: &Arc<str>, flow: &F) {
        let Some(level) = self.levels.get_mut(name) else { return };
        if level.flows.get(flow).is_some_and(|own| own.seats == 0 && own.waiting.is_empty()) {
            level.flows.remove(flow);
        }
        if level.is_retired && level.flows.is_empty() {
            self.levels.remove(name);
        }
    }
}

impl<F: Clone + Eq + std::hash::Hash, T> Level<F, T> {
    fn flow(&mut self, flow: &F) -> &mut Flow<T> {
        self.flows.entry(flow.clone()).or_insert_with(|| Flow { seats: 0, waiting: VecDeque::new() })
    }

    fn sit(&mut self, flow: &F) {
        self.flow(flow).seats += 1;
        self.counts.taken += 1;
        self.counts.dispatched += 1;
    }

    fn may_wait(&mut self, flow: &F) -> bool {
        let own = self.flows.get(flow).map_or(0, |flow| flow.waiting.len());
        own < self.bounds.waiting_per_flow
            && (self.counts.waiting < self.bounds.waiting || self.make_room(own))
    }

    /// Sends away the newest request of the flow with the longest queue, if that is longer than one's own will be:
    /// its bell is dropped. A few who fill the queue together do not keep the next one out.
    fn make_room(&mut self, own: usize) -> bool {
        let longest =
            self.flows.values_mut().map(|flow| &mut flow.waiting).max_by_key(|waiting| waiting.len());
        // With more than one in it, it does not become empty: the flow stays known.
        let Some(longest) = longest.filter(|waiting| waiting.len() > own + 1) else { return false };
        longest.pop_back();
        self.counts.waiting -= 1;
        self.counts.rejected += 1;
        true
    }
}

#[cfg(test)]
#[path = "fair_queue_tests.rs"]
mod tests;
