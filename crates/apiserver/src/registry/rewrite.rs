//! Objects that do not change, but lie in the store otherwise than they would be written today: encrypted by an old key, or
//! in a version that is no longer the one to store. Whoever writes them again as they are brings them into today's form.

use minik8s_store::{Commit, Condition, Entry, Op, Outcome, Range};

use super::conversion::version_of;
use super::{Call, Registry};
use crate::catalog::Served;
use crate::codec;
use crate::error::Result;

/// Keys read at a time.
const PAGE: usize = 200;

impl Registry {
    /// Whether a write that changes nothing is to be done all the same.
    pub(super) async fn is_stale(&self, call: &Call) -> Result<bool> {
        if call.options.dry_run {
            return Ok(false);
        }
        let key = call.key();
        // Built-in kinds are stored in one version for ever.
        if call.served.is_custom()
            && let Some(entry) = self.store.get(&key).await?
            && is_of_old_version(&call.served, &entry)
        {
            return Ok(true);
        }
        Ok(self.store.is_stale(&key).await?)
    }

    /// Brings all objects of a resource into today's form; how many needed it. No admission is asked and no field has
    /// another owner afterwards: what clients see is the same, at a new `resourceVersion`.
    pub async fn rewrite_all(&self, served: &Served) -> Result<usize> {
        let (mut after, mut written) = (None, 0);
        loop {
            let range = Range { prefix: served.prefix.clone(), after, limit: PAGE, revision: None };
            let page = self.store.range(range).await?;
            after = page.entries.last().map(|entry| entry.key.to_string());
            for entry in page.entries {
                written += usize::from(self.rewrite(served, entry).await?);
            }
            if !page.more {
                return Ok(written);
            }
        }
    }

    async fn rewrite(&self, served: &Served, entry: Entry) -> Result<bool> {
        let (key, revision) = (entry.key.to_string(), entry.revision);
        let value = if is_of_old_version(served, &entry) {
            let Some(entry) = self.to_served(served, vec![entry]).await?.pop() else { return Ok(false) };
            let split = codec::decode_split(served, &entry)?;
            let value = codec::encode_with(served, &split.object, split.managed.as_deref())?;
            self.to_stored(served, value).await?
        } else if self.store.is_stale(&key).await? {
            entry.value
        } else {
            return Ok(false);
        };
        let conditions = vec![Condition { key: key.clone(), revision }];
        let commit = Commit { conditions, ops: vec![Op::Put { key, value }] };
        // Whoever was faster has written it in today's form.
        Ok(matches!(self.store.commit(commit).await?, Outcome::Committed(_)))
    }
}

fn is_of_old_version(served: &Served, entry: &Entry) -> bool {
    version_of(&entry.value).is_ok_and(|version| version != served.stored_api_version())
}
