//! A bound on the entries of an object.
//!
//! Every program that ever updated an object would leave an entry. Past ten updaters the oldest become
//! one, `ancient-changes`, per version of the kind.

use super::entry::Source;
use super::{Entries, Entry, Operation};

pub(super) const MAX_UPDATERS: usize = 10;
const BUCKET: &str = "ancient-changes";

impl Entries {
    /// Joins the oldest updaters until there are no more than ten, or no two of one version are left.
    pub fn cap(&mut self) {
        let is_updater = |entry: &Entry| entry.operation == Operation::Update;
        let count = self.0.iter().filter(|entry| is_updater(entry)).count();
        let Some(mut excess) = count.checked_sub(MAX_UPDATERS).filter(|excess| *excess > 0) else { return };

        let (mut updaters, appliers): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.0).into_iter().partition(is_updater);
        updaters.sort_by(|a, b| a.order().cmp(&b.order()));
        self.0 = appliers;
        // The oldest of each version waits here: alone it keeps its name, joined it is the bucket.
        let mut oldest: Vec<Entry> = Vec::new();
        for entry in updaters {
            match oldest.iter_mut().find(|old| old.api_version == entry.api_version) {
                Some(old) if excess > 0 => {
                    old.manager = BUCKET.to_owned();
                    old.subresource = None;
                    old.fields = old.fields.union(&entry.fields);
                    old.time = entry.time;
                    old.source = Source::default();
                    excess -= 1;
                }
                None if excess > 0 => oldest.push(entry),
                _ => self.add(entry),
            }
        }
        oldest.into_iter().for_each(|entry| self.add(entry));
    }
}
