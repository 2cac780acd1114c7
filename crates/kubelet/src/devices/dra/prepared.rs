//! Which claims are prepared, for which pods, and what their drivers said; on disk, since pods outlive the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

const FILE: &str = "dra_manager_state";

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// By UID.
    pub claims: BTreeMap<String, PreparedClaim>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedClaim {
    pub namespace: String,
    pub name: String,
    /// Pods that use it, by UID.
    pub users: BTreeMap<String, User>,
    pub drivers: BTreeMap<String, Preparation>,
}

/// A pod, and which of its containers want which request of the claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub pod: String,
    /// Container and request; None: all of them.
    pub containers: Vec<(String, Option<String>)>,
}

/// What one driver did for a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preparation {
    /// It has answered; else it may or may not have begun.
    pub is_complete: bool,
    /// It need not hear of the end.
    pub skips_unprepare: bool,
    pub devices: Vec<PreparedDevice>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedDevice {
    pub requests: Vec<String>,
    pub pool: String,
    pub device: String,
    pub cdi: Vec<String>,
}

impl PreparedDevice {
    /// A request stands for its alternatives too.
    pub fn is_of(&self, wanted: Option<&str>) -> bool {
        let Some(wanted) = wanted else { return true };
        let main = |name: &str| name.split_once('/').map_or(name.to_owned(), |(main, _)| main.to_owned());
        self.requests.is_empty() || self.requests.iter().any(|name| name == wanted || main(name) == wanted)
    }
}

impl Prepared {
    /// Nothing of a file that cannot be read, which is told.
    pub fn read(dir: &Path) -> Self {
        let text = match std::fs::read(dir.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Prepared::default(),
            Err(error) => {
                tracing::error!(%error, "cannot read which claims are prepared");
                return Prepared::default();
            }
        };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::error!(%error, "the file of prepared claims makes no sense");
            Prepared::default()
        })
    }

    /// Whole or not at all.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let new = dir.join(format!("{FILE}.new"));
        let file = std::fs::File::create(&new)?;
        serde_json::to_writer(&file, self)?;
        file.sync_all()?;
        std::fs::rename(new, dir.join(FILE))
    }

    /// Takes away users that are none of these. True if there were some.
    pub fn retain_users(&mut self, uids: &BTreeSet<String>) -> bool {
        let mut changed = false;
        for claim in self.claims.values_mut() {
            let before = claim.users.len();
            claim.users.retain(|uid, _| uids.contains(uid));
            changed |= claim.users.len() != before;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_claims_come_back() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Prepared::read(dir.path()), Prepared::default());
        let user = User { pod: "p".into(), containers: vec![("main".into(), Some("gpu".into()))] };
        let device = PreparedDevice { cdi: vec!["a/b=c".into()], ..PreparedDevice::default() };
        let preparation = Preparation { is_complete: true, devices: vec![device], ..Preparation::default() };
        let claim = PreparedClaim {
            namespace: "ns".into(),
            name: "c".into(),
            users: [("u".to_owned(), user)].into(),
            drivers: [("gpu.example".to_owned(), preparation)].into(),
        };
        let mut prepared = Prepared { claims: [("x".to_owned(), claim)].into() };
        prepared.write(dir.path()).unwrap();
        assert_eq!(Prepared::read(dir.path()), prepared);
        assert!(!prepared.retain_users(&["u".to_owned()].into()));
        assert!(prepared.retain_users(&BTreeSet::new()));
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert_eq!(Prepared::read(dir.path()), Prepared::default());
    }

    #[test]
    fn request_stands_for_its_alternatives() {
        let device = |requests: &[&str]| PreparedDevice {
            requests: requests.iter().map(|&r| r.to_owned()).collect(),
            ..Default::default()
        };
        assert!(device(&["gpu/big"]).is_of(Some("gpu")) && device(&["gpu"]).is_of(Some("gpu")));
        assert!(device(&[]).is_of(Some("gpu")) && device(&["nic"]).is_of(None));
        assert!(!device(&["nic"]).is_of(Some("gpu")) && !device(&["gpu/big"]).is_of(Some("gpu/small")));
    }
}
