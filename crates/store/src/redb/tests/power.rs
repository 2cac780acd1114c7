//! Power cuts: what was not synced is there, or not, or half.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::simulated_disk::SimulatedDisk;
use super::{open, try_put};
use crate::{Range, Revision, Store};

/// A small generator, so that a case can decide about any number of sectors.
fn coin(mut state: u64, percent: u64) -> impl FnMut() -> bool {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % 100 < percent
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_power_cut_loses_nothing_acknowledged(
        sizes in prop::collection::vec(0..9000_usize, 1..25),
        pending in 0..3_usize,
        seed in 1..u64::MAX,
        percent in prop_oneof![Just(0), Just(50), Just(90), Just(100)],
    ) {
        Runtime::new().unwrap().block_on(async {
            let mut disk = SimulatedDisk::new();
            let mut acknowledged = BTreeMap::<String, (Revision, usize)>::new();
            for round in 0..3 {
                let store = open(&disk).expect("a store opens after a power cut");
                check(&store, &acknowledged, pending * round).await;
                for (number, size) in sizes.iter().enumerate() {
                    let key = format!("/{}", number % 7);
                    let revision = try_put(&store, &key, vec![round as u8; *size]).await.unwrap();
                    acknowledged.insert(key, (revision, *size));
                }
                // Commits that are under way when the power goes.
                disk.block_syncs(true);
                for number in 0..pending {
                    let store = store.clone();
                    tokio::spawn(async move { try_put(&store, &format!("/pending/{number}"), "x").await });
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                let after = disk.after_power_cut(coin(seed + round as u64, percent));
                disk.block_syncs(false);
                store.close().await;
                disk = after;
            }
        });
    }
}

async fn check(store: &super::RedbStore, acknowledged: &BTreeMap<String, (Revision, usize)>, pending: usize) {
    let page = store.range(Range::default()).await.unwrap();
    let expected = acknowledged.len();
    assert!((expected..=expected + pending).contains(&page.entries.len()), "{} entries", page.entries.len());
    for (key, (revision, size)) in acknowledged {
        let entry = store.get(key).await.unwrap().expect("acknowledged");
        assert_eq!((entry.revision, entry.value.len()), (*revision, *size), "{key}");
    }
}
