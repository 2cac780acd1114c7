//! What features keep beside objects: keys of their own in the store, below `/records/UID/`.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_api::{Owner, Record, RecordChange, RecordOutcome, Records, RecordsError};
use minik8s_store::{Commit, Condition, Op, Outcome, Range};

use crate::api::Api;
use crate::registry::{Call, Registry};

/// The records of this server's store.
pub struct StoredRecords(pub Arc<Api>);

#[async_trait]
impl Records for StoredRecords {
    async fn read(&self, uid: &str) -> Result<Vec<Record>, RecordsError> {
        let prefix = prefix(uid);
        let page = self.0.registry.store.range(Range { prefix: prefix.clone(), ..Range::default() }).await;
        let entries = page.map_err(told)?.entries;
        Ok(entries
            .into_iter()
            .map(|entry| Record {
                name: entry.key[prefix.len()..].to_owned(),
                value: entry.value,
                revision: entry.revision,
            })
            .collect())
    }

    async fn write(&self, uid: &str, change: RecordChange<'_>) -> Result<RecordOutcome, RecordsError> {
        let key = |name: &str| format!("{}{name}", prefix(uid));
        let mut commit = Commit::default();
        if let Some((name, revision)) = change.unchanged {
            commit.conditions.push(Condition { key: key(name), revision });
        }
        if let Some(owner) = change.owner {
            let key = self.call(&owner.object)?.key();
            commit.conditions.push(Condition { key, revision: owner.revision });
        }
        for (name, value) in change.create {
            commit.conditions.push(Condition { key: key(&name), revision: 0 });
            commit.ops.push(Op::Put { key: key(&name), value });
        }
        commit.ops.extend(change.remove.iter().map(|name| Op::Delete { key: key(name) }));
        match self.0.registry.store.commit(commit).await.map_err(told)? {
            Outcome::Committed(revision) => Ok(RecordOutcome::Written(revision)),
            Outcome::Conflict(_) => Ok(RecordOutcome::Conflict),
        }
    }

    async fn touch(&self, owner: Owner<'_>, annotation: &str) -> Result<(), RecordsError> {
        let call = self.call(&owner)?;
        let counted = self.0.registry.change(&call, |old| {
            let mut object = old.clone();
            let annotations = &mut object["metadata"]["annotations"];
            let count = annotations[annotation].as_str().and_then(|text| text.parse().ok()).unwrap_or(0u64);
            annotations[annotation] = count.saturating_add(1).to_string().into();
            Ok(object)
        });
        counted.await.map(drop).map_err(|error| RecordsError(error.to_string()))
    }
}

impl StoredRecords {
    /// A request of the server's own for the object.
    fn call(&self, owner: &Owner<'_>) -> Result<Call, RecordsError> {
        let Owner { resource, namespace, name } = owner;
        let snapshot = self.0.registry.catalog.snapshot();
        let served = snapshot.find(resource.group, resource.version, resource.plural).cloned();
        let served = served.ok_or_else(|| RecordsError(format!("{} is not served", resource.plural)))?;
        Ok(Call::internal(served, namespace, name))
    }
}

/// Removes all of an object's records in the commit that removes the object.
pub async fn release(registry: &Registry, uid: &str, commit: &mut Commit) -> minik8s_store::Result<()> {
    // Without a UID it would be everybody's.
    if uid.is_empty() {
        return Ok(());
    }
    let page = registry.store.range(Range { prefix: prefix(uid), ..Range::default() }).await?;
    commit.ops.extend(page.entries.into_iter().map(|entry| Op::Delete { key: entry.key.to_string() }));
    Ok(())
}

fn prefix(uid: &str) -> String {
    format!("/records/{uid}/")
}

fn told(error: minik8s_store::Error) -> RecordsError {
    RecordsError(error.to_string())
}
