//! What every engine must do. Each case gets a laboratory that makes empty stores; [`for_each_case`] lists
//! the cases, so that no engine can leave one out.

pub mod commits;
pub mod compaction;
pub mod histories;
pub mod model;
pub mod ranges;
pub mod watches;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use minik8s_store::{Commit, Condition, Event, Op, Options, Outcome, Revision, Store, Watch, WatchItem};

/// Makes stores that know nothing of each other.
#[allow(async_fn_in_trait)]
pub trait Lab {
    async fn store(&self, options: Options) -> Arc<dyn Store>;

    /// How many random histories to try.
    fn cases(&self) -> u32;

    async fn default_store(&self) -> Arc<dyn Store> {
        self.store(Options::default()).await
    }
}

/// Calls `$run!(module, case)` for every case.
#[macro_export]
macro_rules! for_each_case {
    ($run:ident) => {
        $run!(commits, puts_gets_and_deletes);
        $run!(commits, conditions_guard_commits);
        $run!(commits, several_operations_share_a_revision);
        $run!(commits, the_last_operation_on_a_key_counts);
        $run!(commits, what_changes_nothing_makes_no_revision);
        $run!(commits, odd_keys_and_values_survive);
        $run!(commits, racing_increments_are_not_lost);
        $run!(ranges, prefixes_bound_ranges);
        $run!(ranges, pages_follow_each_other);
        $run!(ranges, pages_stay_on_their_snapshot);
        $run!(ranges, old_revisions_can_be_read);
        $run!(ranges, large_ranges_come_whole);
        $run!(ranges, the_future_cannot_be_read);
        $run!(watches, changes_arrive_with_what_was_before);
        $run!(watches, the_past_comes_first);
        $run!(watches, the_far_past_comes_first);
        $run!(watches, every_watcher_gets_its_prefix);
        $run!(watches, a_slow_watcher_is_cut_off);
        $run!(watches, a_slow_start_is_not_cut_off);
        $run!(watches, what_a_watcher_saw_can_be_read);
        $run!(watches, progress_comes_when_asked_for);
        $run!(watches, quiet_watchers_hear_of_progress);
        $run!(watches, the_future_cannot_be_watched);
        $run!(compaction, compacted_history_is_gone);
        $run!(compaction, the_rest_of_history_stays);
        $run!(compaction, history_goes_by_itself);
        $run!(histories, random_histories_match_the_model);
        $run!(histories, concurrent_histories_match_the_model);
    };
}

pub fn put(key: &str, value: impl Into<Bytes>) -> Commit {
    Commit { conditions: Vec::new(), ops: vec![Op::Put { key: key.into(), value: value.into() }] }
}

pub fn delete(key: &str) -> Commit {
    Commit { conditions: Vec::new(), ops: vec![Op::Delete { key: key.into() }] }
}

/// Guards a commit: `key` must have been written at `revision`.
pub fn if_at(key: &str, revision: Revision, mut commit: Commit) -> Commit {
    commit.conditions.push(Condition { key: key.into(), revision });
    commit
}

pub async fn commit(store: &dyn Store, commit: Commit) -> Revision {
    match store.commit(commit).await.expect("committing") {
        Outcome::Committed(revision) => revision,
        Outcome::Conflict(conflict) => panic!("unexpected conflict {conflict:?}"),
    }
}

/// Fails instead of waiting for ever.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"))
}

pub async fn next_event(watch: &mut Watch) -> Arc<Event> {
    loop {
        match soon("an event", watch.next()).await.expect("watch goes on").expect("watch is well") {
            WatchItem::Event(event) => return event,
            WatchItem::Progress(_) => {}
        }
    }
}

/// Everything a watch delivers up to `revision`.
pub async fn events_until(store: &dyn Store, watch: &mut Watch, revision: Revision) -> Vec<Event> {
    store.request_progress(watch).await.expect("asking for progress");
    let mut events = Vec::new();
    loop {
        match soon("progress", watch.next()).await.expect("watch goes on").expect("watch is well") {
            WatchItem::Event(event) => events.push((*event).clone()),
            WatchItem::Progress(reached) if reached >= revision => return events,
            WatchItem::Progress(_) => {}
        }
    }
}
