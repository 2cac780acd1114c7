//! Kinds whose objects are made when they are read: selected and shaped like all others.

use std::sync::Arc;

use async_trait::async_trait;
use http::Response;
use jiff::Timestamp;
use minik8s_api::{Computed, Objects, Parse, ReadError, ResourceRef, Scope, Stored, StoredObject};
use minik8s_store::Entry;
use serde_json::{Value, json};

use crate::answer::{self, Body};
use crate::codec;
use crate::error::{ApiError, Result};
use crate::form::Accepted;
use crate::registry::{Call, Registry};
use crate::request::{ListOptions, Query};
use crate::selection::Selection;

/// One of them, or those that the query selects if the call names none.
pub async fn answer(
    registry: &Registry,
    call: &Call,
    computed: &dyn Computed,
    query: &Query,
    accepted: &Accepted,
) -> Result<Response<Body>> {
    let name = Some(call.name.as_str()).filter(|name| !name.is_empty());
    let scope = Scope { namespace: &call.namespace, name, now: call.now };
    let objects = computed.objects(registry, scope).await.map_err(ApiError::internal)?;
    let body = match name {
        None => {
            let selection = Selection::new(&call.served, &ListOptions::parse(query)?)?;
            let chosen = objects.into_iter().filter(|object| selection.matches(&call.served, object));
            accepted.form.shape_list(&call.served, json!({}), chosen.collect())
        }
        Some(name) => {
            let one = objects.into_iter().next().ok_or_else(|| not_found(call, name))?;
            accepted.form.shape_one(&call.served, one, false)
        }
    };
    answer::object(200, &body, accepted.encoding)
}

/// As metrics-server says it: with the namespace.
fn not_found(call: &Call, name: &str) -> ApiError {
    match call.namespace.as_str() {
        "" => ApiError::not_found(&call.served, name),
        namespace => ApiError::not_found(&call.served, &format!("{namespace}/{name}")),
    }
}

#[async_trait]
impl Objects for Registry {
    async fn read(&self, resource: &ResourceRef<'_>, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
        let served = self.built_in(resource.group, resource.version, resource.plural);
        let served = served.map_err(|error| ReadError(error.to_string()))?;
        let read = match scope.name {
            None => self.all(&served, scope.namespace).await,
            Some(name) => match self.look(&served, scope.namespace, name).await {
                Err(error) if error.code == 404 => Ok(Vec::new()),
                found => found.map(|object| vec![object]),
            },
        };
        read.map_err(|error| ReadError(error.to_string()))
    }

    async fn stored(&self, resource: &ResourceRef<'_>) -> Result<Stored, ReadError> {
        let failed = |error: ApiError| ReadError(error.to_string());
        let served = self.built_in(resource.group, resource.version, resource.plural).map_err(failed)?;
        let (entries, revision) = self.entries(&served).await.map_err(failed)?;
        let path = served.prefix.len();
        let parse: Arc<Parse> = Arc::new(move |object: &StoredObject| {
            let (key, value) = (object.key().clone(), object.bytes.clone());
            let entry = Entry { key, value, revision: object.version };
            codec::decode_split(&served, &entry).map(|split| split.object).map_err(failed)
        });
        let stored =
            |entry: Entry| StoredObject::new(entry.key, path, entry.revision, entry.value, parse.clone());
        Ok(Stored { revision, objects: entries.into_iter().map(stored).collect() })
    }

    fn moments(&self) -> Vec<(Timestamp, u64)> {
        let all = self.store.moments().into_iter();
        all.filter_map(|moment| Some((Timestamp::try_from(moment.at).ok()?, moment.revision))).collect()
    }
}
