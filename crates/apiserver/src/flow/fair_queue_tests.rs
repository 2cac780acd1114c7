//! The queue by examples, and that no sequence of steps breaks its bounds.

use proptest::prelude::*;

use super::*;

type Queue = FairQueue<&'static str, String>;

const PLAIN: Bounds =
    Bounds { seats: 0, lendable: 0, borrowable: usize::MAX, waiting: 100, waiting_per_flow: 10 };

fn levels(bounds: &[(&str, Bounds)]) -> BTreeMap<Arc<str>, Bounds> {
    bounds.iter().map(|(name, bounds)| (Arc::from(*name), *bounds)).collect()
}

fn queue(bounds: &[(&str, Bounds)]) -> Queue {
    let mut queue = Queue::new(bounds.iter().map(|(_, bounds)| bounds.seats).sum());
    assert!(queue.configure(&levels(bounds)).is_empty());
    queue
}

fn enter(queue: &mut Queue, level: &str, flow: &'static str) -> Entered {
    queue.enter(&level.into(), &flow, || format!("{level}/{flow}"))
}

fn waits(entered: Entered) -> bool {
    matches!(entered, Entered::Queued(_))
}

#[test]
fn fair_queue_serves_who_has_least_then_who_waits_longest() {
    let mut queue = queue(&[("low", Bounds { seats: 3, ..PLAIN })]);
    for _ in 0..3 {
        assert_eq!(enter(&mut queue, "low", "noisy"), Entered::Seated);
    }
    for name in ["noisy", "noisy", "ann", "bob", "ann"] {
        assert!(waits(enter(&mut queue, "low", name)));
    }
    let served: Vec<_> = (0..3).filter_map(|_| queue.leave(&"low".into(), &"noisy")).collect();
    // Ann and Bob have none, Ann came first; then all have one, and the noisy one has waited longest.
    assert_eq!(served, ["low/ann", "low/bob", "low/noisy"]);
}

#[test]
fn fair_queue_gives_no_level_what_another_keeps() {
    let mut queue = queue(&[("low", Bounds { seats: 3, ..PLAIN }), ("system", Bounds { seats: 1, ..PLAIN })]);
    for _ in 0..3 {
        assert_eq!(enter(&mut queue, "low", "pod"), Entered::Seated);
    }
    assert!(waits(enter(&mut queue, "low", "pod")));
    assert_eq!(enter(&mut queue, "system", "node-a"), Entered::Seated);
    assert!(waits(enter(&mut queue, "system", "node-b")));
    let next = queue.leave(&"system".into(), &"node-a");
    assert_eq!(next.as_deref(), Some("system/node-b"), "the pod may not take that seat");
    assert_eq!(queue.leave(&"low".into(), &"pod").as_deref(), Some("low/pod"));
}

#[test]
fn fair_queue_lends_what_is_not_used_and_gets_it_back_first() {
    let high = Bounds { seats: 2, lendable: 1, ..PLAIN };
    let mut queue = queue(&[("high", high), ("low", Bounds { seats: 2, borrowable: 1, ..PLAIN })]);
    for _ in 0..3 {
        assert_eq!(enter(&mut queue, "low", "pod"), Entered::Seated, "its own two, and one that is lent");
    }
    assert!(waits(enter(&mut queue, "low", "pod")), "it may borrow no more");
    assert_eq!(enter(&mut queue, "high", "ann"), Entered::Seated, "one is always kept");
    assert!(waits(enter(&mut queue, "high", "ann")));
    assert_eq!(queue.leave(&"low".into(), &"pod").as_deref(), Some("high/ann"), "high has less of its own");
    assert_eq!(queue.leave(&"high".into(), &"ann").as_deref(), Some("low/pod"));
}

#[test]
fn fair_queue_refuses_beyond_its_bounds() {
    let rejects = Bounds { seats: 1, waiting: 0, waiting_per_flow: 0, borrowable: 0, ..PLAIN };
    let mut queue = queue(&[("low", Bounds { seats: 1, waiting: 12, ..PLAIN }), ("rejects", rejects)]);
    assert_eq!(enter(&mut queue, "rejects", "a"), Entered::Seated);
    assert_eq!(enter(&mut queue, "rejects", "b"), Entered::Full);
    assert_eq!(enter(&mut queue, "low", "a"), Entered::Seated);
    for turn in 0..10 {
        assert_eq!(enter(&mut queue, "low", "a"), Entered::Queued(turn));
    }
    assert_eq!(enter(&mut queue, "low", "a"), Entered::Full, "of one flow");
    assert_eq!(enter(&mut queue, "low", "b"), Entered::Queued(10), "another flow's queue is another");
    assert!(queue.give_up(&"low".into(), &"a", 3) && !queue.give_up(&"low".into(), &"a", 3));
    for flow in ["c", "d", "e"] {
        assert!(waits(enter(&mut queue, "low", flow)), "the longest makes room");
    }
    let low = queue.counts().find(|(name, _)| &***name == "low").unwrap().1;
    assert_eq!(low, LevelCounts { seats: 1, taken: 1, waiting: 12, dispatched: 1, rejected: 3 });
}

#[test]
fn fair_queue_outlives_changes_of_its_levels() {
    let mut queue = queue(&[("low", Bounds { seats: 1, ..PLAIN }), ("gone", Bounds { seats: 1, ..PLAIN })]);
    assert_eq!(enter(&mut queue, "gone", "a"), Entered::Seated);
    assert_eq!(enter(&mut queue, "low", "a"), Entered::Seated);
    assert!(waits(enter(&mut queue, "low", "b")));
    let seated = queue.configure(&levels(&[("low", Bounds { seats: 2, ..PLAIN })]));
    assert_eq!(seated, ["low/b"], "it has two seats now");
    assert_eq!(queue.leave(&"gone".into(), &"a"), None);
    assert_eq!(queue.counts().map(|(name, _)| name.to_string()).collect::<Vec<_>>(), ["low"]);
}

proptest! {
    /// Whatever happens, no bound is broken, no seat is lost, and none is empty while somebody could sit.
    #[test]
    fn fair_queue_holds_its_bounds(
        steps in prop::collection::vec((0usize..3, 0usize..3, 0u8..3), 0..300),
        lendable in 0usize..3, borrowable in 0usize..4,
    ) {
        const LEVELS: [&str; 3] = ["a", "b", "c"];
        const FLOWS: [&str; 3] = ["x", "y", "z"];
        let bounds: Vec<_> =
            LEVELS.iter().map(|name| (*name, Bounds { seats: 2, lendable, borrowable, ..PLAIN })).collect();
        let mut queue = queue(&bounds);
        let (mut seated, mut queued) = (Vec::<(usize, usize)>::new(), Vec::<((usize, usize), u64)>::new());
        for (level, flow, action) in steps {
            let (who, name) = ((level, flow), Arc::<str>::from(LEVELS[level]));
            match action {
                0 => match enter(&mut queue, LEVELS[level], FLOWS[flow]) {
                    Entered::Seated => seated.push(who),
                    Entered::Queued(turn) => queued.push((who, turn)),
                    Entered::Full => {}
                },
                1 => if let Some(place) = seated.iter().position(|sits| *sits == who) {
                    seated.swap_remove(place);
                    if let Some(rung) = queue.leave(&name, &FLOWS[flow]) {
                        let is_rung = |(level, flow): (usize, usize)| rung == format!("{}/{}", LEVELS[level], FLOWS[flow]);
                        let place = queued.iter().position(|(waits, _)| is_rung(*waits)).unwrap();
                        seated.push(queued.remove(place).0);
                    }
                },
                _ => if let Some(place) = queued.iter().position(|(waits, _)| *waits == who) {
                    let (_, turn) = queued.remove(place);
                    prop_assert!(queue.give_up(&name, &FLOWS[flow], turn));
                },
            }
            let taken: Vec<usize> = (0..3).map(|level| seated.iter().filter(|who| who.0 == level).count()).collect();
            let counted: Vec<usize> = queue.counts().map(|(_, counts)| counts.taken).collect();
            prop_assert_eq!(&taken, &counted);
            prop_assert_eq!(queue.counts().map(|(_, counts)| counts.waiting).sum::<usize>(), queued.len());
            prop_assert!(taken.iter().sum::<usize>() <= 6);
            let kept = 2 - lendable;
            for level in 0..3 {
                prop_assert!(taken[level] <= 2 + borrowable);
                let reserved: usize = (0..3).filter(|other| *other != level).map(|other| kept.saturating_sub(taken[other])).sum();
                let could = taken[level] < kept
                    || (taken[level] < 2 + borrowable && taken.iter().sum::<usize>() + reserved < 6);
                prop_assert!(!could || queued.iter().all(|(who, _)| who.0 != level), "a seat is free and somebody waits for it");
            }
        }
        for (level, flow) in seated { queue.leave(&LEVELS[level].into(), &FLOWS[flow]); }
        for ((level, flow), turn) in queued {
            if !queue.give_up(&LEVELS[level].into(), &FLOWS[flow], turn) { queue.leave(&LEVELS[level].into(), &FLOWS[flow]); }
        }
        prop_assert!(queue.levels.values().all(|level| level.flows.is_empty()) && queue.taken == 0);
    }
}
