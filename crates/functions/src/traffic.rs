//! Which revisions besides the one that serves get a part of the requests. Pure.
//!
//! A revision gets its part once an instance of it is ready; until then, and from zero, the one that serves gets all. So a
//! share never makes a request wait for code that does not start.

use minik8s_api::{At, FieldErrors};
use minik8s_meta::function::{FunctionInstance, FunctionShare};

use crate::controller::Observed;
use crate::revision::{hash_of, number};

/// A revision with a part of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    pub hash: String,
    pub number: i64,
    pub percent: u32,
}

impl Split {
    /// Of those that all requests together need.
    pub fn instances(&self, demand: usize) -> usize {
        (demand * self.percent as usize).div_ceil(100)
    }
}

/// Those that exist and are not the one that serves, which has what is left.
pub fn splits(seen: &Observed, serving: Option<&str>) -> Vec<Split> {
    let wanted = seen.function.spec.traffic.iter();
    let known = wanted.filter_map(|share| {
        let map = seen.maps.iter().find(|map| number(map) == share.revision)?;
        let hash = hash_of(&map.metadata).to_owned();
        Some(Split { hash, number: share.revision, percent: u32::try_from(share.percent).unwrap_or(0) })
    });
    known.filter(|split| Some(split.hash.as_str()) != serving && split.percent > 0).collect()
}

/// The parts as they are now, and why some revision does not have its own.
pub fn shares(
    seen: &Observed,
    splits: &[Split],
    serving: Option<&str>,
    instances: &[FunctionInstance],
) -> (Vec<FunctionShare>, Vec<String>) {
    let mut waits: Vec<String> = seen
        .function
        .spec
        .traffic
        .iter()
        .filter(|share| !seen.maps.iter().any(|map| number(map) == share.revision))
        .map(|share| format!("there is no revision {}", share.revision))
        .collect();
    let Some(serving) = serving else { return (Vec::new(), waits) };
    let is_ready = |hash: &str| instances.iter().any(|one| one.ready && one.revision == hash);
    let (ready, missing): (Vec<&Split>, Vec<&Split>) = splits.iter().partition(|split| is_ready(&split.hash));
    waits.extend(missing.iter().map(|split| format!("no instance of revision {} is ready", split.number)));
    if ready.is_empty() {
        return (Vec::new(), waits);
    }
    let given: u32 = ready.iter().map(|split| split.percent).sum();
    let rest = FunctionShare { revision: serving.to_owned(), percent: 100_u32.saturating_sub(given) };
    let mut shares: Vec<_> = ready
        .iter()
        .map(|split| FunctionShare { revision: split.hash.clone(), percent: split.percent })
        .collect();
    shares.push(rest);
    (shares, waits)
}

/// Each revision once, and not more than all together.
pub fn validate(traffic: &At<'_>, errors: &mut FieldErrors) {
    let mut numbers = Vec::new();
    let mut sum = 0;
    for share in traffic.items() {
        let (revision, percent) = (share.field("revision"), share.field("percent"));
        match revision.int() {
            Some(number) if number > 0 && !numbers.contains(&number) => numbers.push(number),
            Some(number) if numbers.contains(&number) => revision.duplicate(errors),
            _ => {
                revision.invalid(errors, "must be the number of a revision; see `minik8s function describe`")
            }
        }
        match percent.int() {
            Some(part @ 0..=100) => sum += part,
            _ => percent.invalid(errors, "must be between 0 and 100"),
        }
    }
    if sum > 100 {
        traffic.invalid(errors, format!("is {sum} percent together; at most 100"));
    }
}
