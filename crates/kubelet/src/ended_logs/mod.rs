//! Logs of pods that are gone, compressed, for as long and as large as `--log-retention` says; without it none are kept.
//!
//! They lie below the data dir, a folder per pod, and go by age and size, the oldest first. Nothing here can fill the
//! disk: where little room is left, none are kept.

mod keep;
mod page;
mod retention;

pub use keep::keep;
pub use page::{files, list, read};
pub use retention::{LogRetention, prune};

use serde::{Deserialize, Serialize};

/// Whose logs a folder holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedPod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    #[serde(default)]
    pub labels: std::collections::BTreeMap<String, String>,
    /// Those that have printed something.
    #[serde(default)]
    pub containers: Vec<String>,
}

/// Describes the pod, in its folder.
const ABOUT: &str = "pod.json";
/// What a folder is called until it is whole.
const UNFINISHED: &str = ".unfinished-";

#[cfg(test)]
mod tests;
