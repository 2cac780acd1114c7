//! The rules of policies in the kernel. Where no pod of the node is isolated there is no table, and packets pay nothing.

use std::time::Instant;

use minik8s_meta::IpFamily;
use tracing::{debug, warn};

use super::PolicyTable;
use super::follow::policy_table;
use crate::proxy::{Nft, NftError, diff};
use crate::run::machine_families;

#[derive(Debug)]
pub struct PolicyRules {
    family: IpFamily,
    table: String,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Perhaps a former run's.
    Unknown,
    /// What is there could not be changed into what is wanted.
    Broken,
    Absent,
    Loaded,
}

impl PolicyRules {
    pub fn new(family: IpFamily, table: &str) -> Self {
        PolicyRules { family, table: table.to_owned(), state: State::Unknown }
    }

    /// Whether the kernel has no rules of a former run.
    pub async fn is_bare(&self) -> Result<bool, NftError> {
        Ok(self.state == State::Absent
            || (self.state == State::Unknown && Nft.list(self.family, &self.table).await?.is_empty()))
    }

    /// Makes the kernel's rules those of the table. Only what differs is touched.
    pub async fn apply(&mut self, table: &mut PolicyTable) -> Result<(), NftError> {
        let started = Instant::now();
        let change = table.take_change();
        let (isolated, peers) = table.sizes();
        let before = std::mem::replace(&mut self.state, State::Broken);
        self.state = match (before, isolated) {
            (State::Absent, 0) => State::Absent,
            (_, 0) => {
                Nft.delete_table(self.family, &self.table).await?;
                State::Absent
            }
            (State::Loaded, _) => {
                if !change.is_empty() {
                    Nft.apply(&change.to_string()).await?;
                }
                State::Loaded
            }
            (State::Unknown, _) => {
                let wanted = table.ruleset();
                let found = Nft.list(self.family, &self.table).await?.into_ruleset(&wanted);
                match found.and_then(|found| diff(&found, &wanted)) {
                    Some(change) if change.is_empty() => {}
                    Some(change) => Nft.apply(&change.to_string()).await?,
                    None => Nft.apply(&wanted.to_string()).await?,
                }
                State::Loaded
            }
            (State::Absent | State::Broken, _) => {
                Nft.apply(&table.ruleset().to_string()).await?;
                State::Loaded
            }
        };
        debug!(family = %self.family, isolated, peers, took = ?started.elapsed(), "changed the rules of NetworkPolicies");
        Ok(())
    }
}

/// Removes the rules of a stopped agent; where there are none it does nothing.
pub(crate) async fn clear(instance: &str) {
    for family in machine_families() {
        if let Err(error) = Nft.delete_table(family, &policy_table(instance)).await {
            warn!("cannot remove the rules of NetworkPolicies: {error}");
        }
    }
}
