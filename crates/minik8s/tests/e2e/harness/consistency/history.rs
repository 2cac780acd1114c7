//! Is what clients were told about one object possible for one object? Pure.
//!
//! Wing and Gong's question, whether some order of all operations explains every answer and keeps to real time, is
//! hard in general. Here the server names the order itself: a resourceVersion grows with every write. So
//! there is only one order to try, and each rule below is what it must fulfil.

use std::collections::BTreeMap;

/// When something was, in any unit; only the order matters.
pub type Moment = u64;
pub type Version = u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub begun: Moment,
    /// None: it was never answered, and may have happened at any time since, or not.
    pub ended: Option<Moment>,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Read {
        version: Version,
        value: String,
    },
    /// Wrote `value` where `expected` was. No two writes write the same value.
    Swap {
        expected: Version,
        value: String,
        answer: Answer,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done(Version),
    Conflict,
    Unknown,
}

/// What cannot be, if there is anything.
pub fn check(history: &[Operation]) -> Result<(), String> {
    let written = values_by_version(history)?;
    for operation in history {
        explain(operation, history, &written)?;
    }
    in_real_time(history)
}

/// Each version has one value, and each value was written by somebody who was not told otherwise.
fn values_by_version(history: &[Operation]) -> Result<BTreeMap<Version, String>, String> {
    let mut written: BTreeMap<Version, String> = BTreeMap::new();
    for operation in history {
        let (version, value) = match &operation.what {
            What::Read { version, value } => (*version, value),
            What::Swap { value, answer: Answer::Done(version), .. } => (*version, value),
            What::Swap { .. } => continue,
        };
        let known = written.entry(version).or_insert_with(|| value.clone());
        if known != value {
            return Err(format!("version {version} is both {known:?} and {value:?}"));
        }
    }
    Ok(written)
}

fn explain(
    operation: &Operation,
    history: &[Operation],
    written: &BTreeMap<Version, String>,
) -> Result<(), String> {
    match &operation.what {
        What::Read { version, value } => {
            let first = written.first_key_value().is_some_and(|(first, _)| first == version);
            let by =
                history.iter().find(|other| matches!(&other.what, What::Swap { value: v, .. } if v == value));
            match by.map(|other| (&other.what, other.begun)) {
                // What was there when the test began was written by none of its clients.
                None if first => Ok(()),
                None => Err(format!("nobody wrote {value:?}, read at version {version}")),
                Some((What::Swap { answer: Answer::Conflict, .. }, _)) => {
                    Err(format!("{value:?} was refused, and yet read at version {version}"))
                }
                Some((What::Swap { answer: Answer::Done(done), .. }, _)) if done != version => {
                    Err(format!("{value:?} was written at version {done} and read at {version}"))
                }
                Some((What::Swap { expected, answer: Answer::Unknown, .. }, _)) => {
                    follows(*expected, *version, written)
                }
                Some((_, begun)) if operation.ended.is_some_and(|ended| ended < begun) => {
                    Err(format!("{value:?} was read before it was written"))
                }
                Some(_) => Ok(()),
            }
        }
        What::Swap { expected, answer: Answer::Done(version), .. } => follows(*expected, *version, written),
        What::Swap { expected, value, answer: Answer::Conflict } => {
            let overtaken = history.iter().any(|other| {
                other != operation
                    && operation.ended.is_some_and(|ended| other.begun <= ended)
                    && match &other.what {
                        What::Read { version, .. } => version > expected,
                        What::Swap { answer: Answer::Done(version), .. } => version > expected,
                        // It may be what was in the way, and nobody saw it.
                        What::Swap { answer: Answer::Unknown, .. } => true,
                        What::Swap { answer: Answer::Conflict, .. } => false,
                    }
            });
            if overtaken { Ok(()) } else { Err(format!("{value:?} was refused, but nobody was quicker")) }
        }
        What::Swap { answer: Answer::Unknown, .. } => Ok(()),
    }
}

/// A swap replaces exactly what it expected: no version is between the two.
fn follows(expected: Version, version: Version, written: &BTreeMap<Version, String>) -> Result<(), String> {
    if version <= expected {
        return Err(format!("version {version} replaced {expected}, which is not older"));
    }
    match written.range(expected + 1..version).next() {
        Some((between, value)) => Err(format!(
            "version {version} replaced {expected}, but {between} ({value:?}) was between: an update is lost"
        )),
        None => Ok(()),
    }
}

/// Whatever begins after something else has ended sees it, or something newer.
fn in_real_time(history: &[Operation]) -> Result<(), String> {
    let known = |operation: &Operation| match &operation.what {
        What::Read { version, .. } | What::Swap { answer: Answer::Done(version), .. } => Some(*version),
        What::Swap { .. } => None,
    };
    let mut ends: Vec<(Moment, Version)> =
        history.iter().filter_map(|operation| Some((operation.ended?, known(operation)?))).collect();
    ends.sort_unstable();
    // The newest version that was known to somebody by then.
    let mut newest = 0;
    for end in &mut ends {
        newest = newest.max(end.1);
        end.1 = newest;
    }
    for operation in history {
        let Some(version) = known(operation) else { continue };
        let before = ends.partition_point(|(ended, _)| *ended < operation.begun);
        let seen = before.checked_sub(1).map_or(0, |last| ends[last].1);
        if version < seen {
            return Err(format!("{operation:?} goes back behind version {seen}, which had been seen before"));
        }
        if version == seen && matches!(operation.what, What::Swap { .. }) {
            return Err(format!("{operation:?} got a version that had been seen before"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(begun: Moment, ended: Moment, version: Version, value: &str) -> Operation {
        Operation { begun, ended: Some(ended), what: What::Read { version, value: value.into() } }
    }

    fn swap(begun: Moment, ended: Moment, expected: Version, value: &str, answer: Answer) -> Operation {
        let ended = Some(ended).filter(|_| answer != Answer::Unknown);
        Operation { begun, ended, what: What::Swap { expected, value: value.into(), answer } }
    }

    #[track_caller]
    fn good(history: &[Operation]) {
        assert_eq!(check(history), Ok(()));
    }

    #[track_caller]
    fn bad(history: &[Operation], why: &str) {
        let error = check(history).expect_err("it must be found out");
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn what_one_object_can_do() {
        use Answer::{Conflict, Done, Unknown};
        good(&[]);
        good(&[read(0, 1, 5, "first")]);
        good(&[
            read(0, 1, 5, "first"),
            swap(2, 6, 5, "a", Done(7)),
            swap(3, 5, 5, "b", Conflict),
            read(4, 5, 5, "first"),
            read(4, 8, 7, "a"),
        ]);
        // Unanswered writes happened, or did not, or later.
        good(&[read(0, 1, 5, "first"), swap(2, 3, 5, "a", Unknown), read(4, 5, 5, "first")]);
        good(&[
            read(0, 1, 5, "first"),
            swap(2, 3, 5, "a", Unknown),
            read(4, 5, 5, "first"),
            read(6, 7, 8, "a"),
        ]);
        good(&[read(0, 1, 5, "first"), swap(2, 3, 5, "a", Unknown), swap(4, 5, 5, "b", Conflict)]);
    }

    #[test]
    fn what_it_cannot() {
        use Answer::{Conflict, Done, Unknown};
        let first = read(0, 1, 5, "first");
        // An update is lost.
        bad(&[first.clone(), swap(2, 3, 5, "a", Done(6)), swap(2, 4, 5, "b", Done(7))], "an update is lost");
        // A read is stale.
        bad(&[first.clone(), swap(2, 3, 5, "a", Done(6)), read(4, 5, 5, "first")], "goes back");
        // An acknowledged write is taken back, and its version given again.
        bad(&[first.clone(), swap(2, 3, 5, "a", Done(6)), swap(4, 5, 5, "b", Done(6))], "both");
        // A refused write happened.
        bad(
            &[first.clone(), swap(2, 9, 5, "a", Done(6)), swap(3, 4, 5, "b", Conflict), read(5, 6, 7, "b")],
            "was refused, and yet read",
        );
        // A write is refused for no reason.
        bad(&[first.clone(), swap(2, 3, 5, "a", Conflict)], "nobody was quicker");
        // A value comes from nowhere, or out of its time.
        bad(&[first.clone(), read(2, 3, 6, "x")], "nobody wrote");
        bad(&[first.clone(), read(2, 3, 6, "a"), swap(4, 5, 5, "a", Done(6))], "before");
        // What nobody answered for replaced something else than it was meant to.
        bad(
            &[first, swap(2, 3, 5, "a", Unknown), swap(4, 5, 5, "b", Done(6)), read(6, 7, 9, "a")],
            "an update is lost",
        );
    }
}
