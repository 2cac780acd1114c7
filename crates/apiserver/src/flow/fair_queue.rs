//! Who gets the next seat: pure, without clock or tasks.
//!
//! A seat that becomes free goes to the user who holds the fewest, and among equals to who waits longest: a user
//! with a thousand requests delays the first request of another by no more than one of its own. Users that are not
//! nodes or administrators leave some seats free for those. Queues are bounded; what does not fit is refused, and the
//! longest queue makes room for a shorter one.

use std::collections::{HashMap, VecDeque};

use super::{Flow, Level};

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub seats: usize,
    /// Seats that only nodes and administrators may take.
    pub reserved: usize,
    pub waiting: usize,
    pub waiting_per_user: usize,
}

impl Bounds {
    /// A quarter of the seats is reserved; twice as many requests as there are seats may wait.
    pub fn of(seats: usize) -> Bounds {
        Bounds { seats, reserved: seats / 4, waiting: seats * 2, waiting_per_user: seats / 2 }
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

/// `T` is how those who wait are told.
pub struct FairQueue<T> {
    bounds: Bounds,
    taken: usize,
    taken_by_ordinary: usize,
    waiting: usize,
    next_turn: u64,
    users: HashMap<Flow, User<T>>,
}

struct User<T> {
    seats: usize,
    waiting: VecDeque<(u64, T)>,
}

impl<T> FairQueue<T> {
    pub fn new(bounds: Bounds) -> Self {
        FairQueue { bounds, taken: 0, taken_by_ordinary: 0, waiting: 0, next_turn: 0, users: HashMap::new() }
    }

    pub fn taken(&self) -> usize {
        self.taken
    }

    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// A seat, or a place in the user's queue. As long as there is room nobody of that level waits.
    pub fn enter(&mut self, flow: &Flow, bell: impl FnOnce() -> T) -> Entered {
        if self.has_room(flow.level) {
            self.user(flow).seats += 1;
            self.count(flow.level, 1);
            return Entered::Seated;
        }
        let own = self.users.get(flow).map_or(0, |user| user.waiting.len());
        let is_full = own >= self.bounds.waiting_per_user;
        if is_full || (self.waiting >= self.most_waiting(flow.level) && !self.make_room(own)) {
            return Entered::Full;
        }
        let turn = self.next_turn;
        self.next_turn += 1;
        self.waiting += 1;
        self.user(flow).waiting.push_back((turn, bell()));
        Entered::Queued(turn)
    }

    /// Sends away the newest request of the user with the longest queue, if that is longer than one's own will be:
    /// its bell is dropped. A few who fill the queue together do not keep the next one out.
    fn make_room(&mut self, own: usize) -> bool {
        let ordinary = self.users.iter_mut().filter(|(flow, _)| flow.level == Level::Ordinary);
        let longest = ordinary.map(|(_, user)| &mut user.waiting).max_by_key(|waiting| waiting.len());
        // With more than one in it, it does not become empty: the user stays known.
        let Some(longest) = longest.filter(|waiting| waiting.len() > own + 1) else { return false };
        longest.pop_back();
        self.waiting -= 1;
        true
    }

    /// Gives a seat back. Returns the bell of who has it now.
    pub fn leave(&mut self, flow: &Flow) -> Option<T> {
        self.count(flow.level, -1);
        if let Some(user) = self.users.get_mut(flow) {
            user.seats -= 1;
        }
        self.forget(flow);
        let next = self.next()?;
        self.count(next.level, 1);
        self.waiting -= 1;
        let user = self.user(&next);
        user.seats += 1;
        user.waiting.pop_front().map(|(_, bell)| bell)
    }

    /// Leaves the queue. False if it is too late: whoever has heard the bell has a seat to give back.
    pub fn give_up(&mut self, flow: &Flow, turn: u64) -> bool {
        let Some(user) = self.users.get_mut(flow) else { return false };
        let Some(place) = user.waiting.iter().position(|(waiting, _)| *waiting == turn) else { return false };
        user.waiting.remove(place);
        self.waiting -= 1;
        self.forget(flow);
        true
    }

    fn next(&self) -> Option<Flow> {
        let seatable = self.users.iter().filter(|(flow, _)| self.has_room(flow.level));
        let ranked = seatable.filter_map(|(flow, user)| Some(((user.seats, user.waiting.front()?.0), flow)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, flow)| flow.clone())
    }

    fn has_room(&self, level: Level) -> bool {
        let ordinary = self.taken_by_ordinary < self.bounds.seats - self.bounds.reserved;
        self.taken < self.bounds.seats && (level == Level::System || ordinary)
    }

    /// Nodes and administrators find a place in the queue, too, when others have filled theirs.
    fn most_waiting(&self, level: Level) -> usize {
        match level {
            Level::System => self.bounds.waiting + self.bounds.reserved,
            Level::Ordinary => self.bounds.waiting,
        }
    }

    fn count(&mut self, level: Level, change: isize) {
        self.taken = self.taken.saturating_add_signed(change);
        if level == Level::Ordinary {
            self.taken_by_ordinary = self.taken_by_ordinary.saturating_add_signed(change);
        }
    }

    fn user(&mut self, flow: &Flow) -> &mut User<T> {
        let fresh = || User { seats: 0, waiting: VecDeque::new() };
        self.users.entry(flow.clone()).or_insert_with(fresh)
    }

    fn forget(&mut self, flow: &Flow) {
        if self.users.get(flow).is_some_and(|user| user.seats == 0 && user.waiting.is_empty()) {
            self.users.remove(flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn flow(name: &str) -> Flow {
        let level = if name.starts_with("node") { Level::System } else { Level::Ordinary };
        Flow { level, user: name.into() }
    }

    fn queue(seats: usize, reserved: usize) -> FairQueue<String> {
        FairQueue::new(Bounds { seats, reserved, waiting: 100, waiting_per_user: 10 })
    }

    fn enter(queue: &mut FairQueue<String>, name: &str) -> Entered {
        queue.enter(&flow(name), || name.to_owned())
    }

    #[test]
    fn fair_queue_serves_who_has_least_then_who_waits_longest() {
        let mut queue = queue(3, 0);
        for _ in 0..3 {
            assert_eq!(enter(&mut queue, "noisy"), Entered::Seated);
        }
        for name in ["noisy", "noisy", "ann", "bob", "ann"] {
            assert!(matches!(enter(&mut queue, name), Entered::Queued(_)));
        }
        let served: Vec<_> = (0..3).filter_map(|_| queue.leave(&flow("noisy"))).collect();
        // Ann and Bob have none, Ann came first; then all have one, and the noisy one has waited longest.
        assert_eq!(served, ["ann", "bob", "noisy"]);
    }

    #[test]
    fn fair_queue_keeps_seats_for_nodes_and_administrators() {
        let mut queue = queue(4, 1);
        for _ in 0..3 {
            assert_eq!(enter(&mut queue, "pod"), Entered::Seated);
        }
        assert_eq!(enter(&mut queue, "pod"), Entered::Queued(0));
        assert_eq!(enter(&mut queue, "node-a"), Entered::Seated);
        assert_eq!(enter(&mut queue, "node-b"), Entered::Queued(1));
        assert_eq!(queue.leave(&flow("node-a")).as_deref(), Some("node-b"), "the pod may not take that seat");
        assert_eq!(queue.leave(&flow("pod")).as_deref(), Some("pod"));
    }

    #[test]
    fn fair_queue_refuses_beyond_its_bounds() {
        let mut queue = queue(1, 0);
        assert_eq!(enter(&mut queue, "a"), Entered::Seated);
        for turn in 0..10 {
            assert_eq!(enter(&mut queue, "a"), Entered::Queued(turn));
        }
        assert_eq!(enter(&mut queue, "a"), Entered::Full);
        assert_eq!(enter(&mut queue, "b"), Entered::Queued(10), "another user's queue is another");
        assert!(queue.give_up(&flow("a"), 3) && !queue.give_up(&flow("a"), 3));
        assert_eq!(enter(&mut queue, "a"), Entered::Queued(11));
        let many: Vec<_> = (0..200).map(|i| enter(&mut queue, &format!("u{i}"))).collect();
        assert_eq!(many.last(), Some(&Entered::Full));
        assert_eq!(queue.waiting(), 100);
        assert!(matches!(enter(&mut FairQueue::new(Bounds::of(200)), "a"), Entered::Seated));
    }

    #[test]
    fn fair_queue_makes_room_where_most_wait() {
        let bounds = Bounds { seats: 1, reserved: 0, waiting: 6, waiting_per_user: 5 };
        let mut queue = FairQueue::<Arc<()>>::new(bounds);
        assert_eq!(queue.enter(&flow("x"), Arc::default), Entered::Seated);
        let bells: Vec<Arc<()>> = (0..6).map(|_| Arc::default()).collect();
        for (bell, name) in bells.iter().zip(["a", "a", "a", "a", "node", "b"]) {
            assert!(matches!(queue.enter(&flow(name), || bell.clone()), Entered::Queued(_)));
        }
        let waits = |bell: &Arc<()>| Arc::strong_count(bell) == 2;
        assert!(matches!(queue.enter(&flow("c"), Arc::default), Entered::Queued(_)), "the newest of a goes");
        assert_eq!(bells.iter().map(waits).collect::<Vec<_>>(), [true, true, true, false, true, true]);
        assert!(matches!(queue.enter(&flow("b"), Arc::default), Entered::Queued(_)), "now a has two, as b");
        assert_eq!(queue.enter(&flow("b"), Arc::default), Entered::Full, "nobody has more than b would have");
        assert_eq!(queue.enter(&flow("a"), Arc::default), Entered::Full);
        assert!(waits(&bells[4]), "a node is never sent away");
        assert_eq!(queue.waiting(), 6);
    }

    proptest! {
        /// Whatever happens, no bound is broken, no seat is lost, and none is empty while somebody could sit.
        #[test]
        fn fair_queue_holds_its_bounds(steps in prop::collection::vec((0usize..5, 0u8..3), 0..300)) {
            const NAMES: [&str; 5] = ["a", "b", "c", "node-a", "node-b"];
            let mut queue = queue(4, 1);
            let (mut seated, mut queued) = (Vec::<usize>::new(), Vec::<(usize, u64)>::new());
            for (who, action) in steps {
                let name = flow(NAMES[who]);
                match action {
                    0 => match queue.enter(&name, || NAMES[who].to_owned()) {
                        Entered::Seated => seated.push(who),
                        Entered::Queued(turn) => queued.push((who, turn)),
                        Entered::Full => {}
                    },
                    1 => if let Some(place) = seated.iter().position(|sits| *sits == who) {
                        seated.swap_remove(place);
                        if let Some(rung) = queue.leave(&name) {
                            let next = NAMES.iter().position(|name| *name == rung).unwrap();
                            let place = queued.iter().position(|(waits, _)| *waits == next).unwrap();
                            queued.remove(place);
                            seated.push(next);
                        }
                    },
                    _ => if let Some(place) = queued.iter().position(|(waits, _)| *waits == who) {
                        let (_, turn) = queued.remove(place);
                        prop_assert!(queue.give_up(&name, turn));
                    },
                }
                let ordinary = seated.iter().filter(|who| **who < 3).count();
                prop_assert_eq!((queue.taken(), queue.waiting()), (seated.len(), queued.len()));
                prop_assert!(seated.len() <= 4 && ordinary <= 3);
                let idle = seated.len() < 4 && queued.iter().any(|(who, _)| *who >= 3 || ordinary < 3);
                prop_assert!(!idle, "a seat is free and somebody waits for it");
            }
            for who in seated { queue.leave(&flow(NAMES[who])); }
            for (who, turn) in queued { if !queue.give_up(&flow(NAMES[who]), turn) { queue.leave(&flow(NAMES[who])); } }
            prop_assert!(queue.users.is_empty() && queue.taken() == 0 && queue.waiting() == 0);
        }
    }
}
