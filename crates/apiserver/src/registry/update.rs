//! Changing objects: the loop that every update, patch and subresource write goes through.

use bytes::Bytes;
use minik8s_api::{FieldErrors, Path};
use minik8s_patch::managed::{self, Tracked};
use minik8s_store::{Commit, Condition, Entry, Op, Outcome};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::create::RETRIES;
use super::{Call, Registry, Written, metadata};
use crate::admission::{Operation, Request};
use crate::catalog::Served;
use crate::codec;
use crate::error::{ApiError, Result};
use crate::managed_fields::Split;
use crate::object::Object;

/// Whether who makes a change is shown the object's `managedFields`.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ManagedFields {
    Hidden,
    Shown,
}

/// An object before a change, and its `managedFields` beside it.
struct Before {
    entry: Entry,
    object: Value,
    managed: Option<Box<RawValue>>,
}

impl Registry {
    /// PUT of a whole object: a change, or for some kinds a creation.
    pub async fn update(&self, call: &Call, object: Value) -> Result<Written> {
        if object.name() != call.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                object.name(),
                call.name
            )));
        }
        if call.served.created_by_put && call.subresource.is_empty() && object.resource_version().is_empty() {
            match self.put_new(call, &object).await {
                Err(e) if e.reason == "AlreadyExists" => {}
                done => return done,
            }
        }
        if call.served.versioned_puts && object.resource_version().is_empty() {
            let mut errors = FieldErrors::default();
            let path = Path::new("metadata").field("resourceVersion");
            errors.invalid(path, 0, "must be specified for an update");
            return Err(ApiError::invalid(&call.served.group, &call.served.kind, &call.name, errors));
        }
        self.change(call, |_| Ok(object.clone())).await
    }

    /// What a PUT makes must be allowed to the user as if they had created it.
    async fn put_new(&self, call: &Call, object: &Value) -> Result<Written> {
        if self.store.get(&call.key()).await?.is_some() {
            return Err(ApiError::already_exists(call.served.resource(), &call.name));
        }
        self.create(call, object.clone()).await
    }

    /// Reads the object, lets `change` make the new one of it, and stores that if nothing else was faster;
    /// else begins again. A `resourceVersion` in the new object that is not the current one is a conflict.
    ///
    /// `change` sees no `managedFields`: they are half of an object, and not to be copied about for nothing.
    pub async fn change(&self, call: &Call, change: impl Fn(&Value) -> Result<Value>) -> Result<Written> {
        self.change_seeing(call, ManagedFields::Hidden, change).await
    }

    /// As [`Registry::change`], for those who look at `managedFields` or may write them.
    pub(super) async fn change_seeing(
        &self,
        call: &Call,
        managed_fields: ManagedFields,
        change: impl Fn(&Value) -> Result<Value>,
    ) -> Result<Written> {
        for _ in 0..RETRIES {
            let entry = self.entry(&call.served, &call.namespace, &call.name).await?;
            let Split { object, managed } = codec::decode_split(&call.served, &entry)?;
            let new = match managed_fields {
                ManagedFields::Hidden => change(&object)?,
                ManagedFields::Shown => change(&codec::decode(&call.served, &entry)?)?,
            };
            let before = Before { entry, object, managed };
            if let Some(done) = self.try_change(call, before, new).await? {
                return Ok(done);
            }
        }
        Err(restless(call))
    }

    /// Lets `edit` change the stored text of an object, for what the server itself writes there: it is nobody's
    /// field, and no rule about what users may write applies.
    pub async fn edit(&self, call: &Call, edit: impl Fn(&Entry) -> Result<Bytes>) -> Result<()> {
        for _ in 0..RETRIES {
            let entry = self.entry(&call.served, &call.namespace, &call.name).await?;
            let value = edit(&entry)?;
            if call.options.dry_run {
                return Ok(());
            }
            let key = call.key();
            let conditions = vec![Condition { key: key.clone(), revision: entry.revision }];
            let commit = Commit { conditions, ops: vec![Op::Put { key, value }] };
            if let Outcome::Committed(_) = self.store.commit(commit).await? {
                return Ok(());
            }
        }
        Err(restless(call))
    }

    /// None: another write was faster.
    async fn try_change(&self, call: &Call, before: Before, mut new: Value) -> Result<Option<Written>> {
        let served = &call.served;
        let Before { entry, object: old, managed } = before;
        let old = &old;
        let sent = managed::take_managed_fields(&mut new);
        let wanted = new.resource_version();
        if !wanted.is_empty() && wanted != old.resource_version() {
            return Err(ApiError::modified(served.resource(), &call.name));
        }
        let wanted_uid = new.uid();
        if !wanted_uid.is_empty() && wanted_uid != old.uid() {
            let why = format!(
                "Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {}",
                old.uid()
            );
            return Err(ApiError::conflict(served.resource(), &call.name, why));
        }
        crate::subresource::restrict(call, &mut new, old);
        metadata::carry_over(call, &mut new, old);
        served.strategy.default(&mut new);
        served.strategy.prepare_update(&mut new, old);
        let mut also = Commit::default();
        let mut request = Request::new(call, Operation::Update, &mut new, Some(old), &mut also);
        self.admission.admit(self, &mut request).await?;
        // After admission: webhooks may have changed the spec.
        metadata::count_generation(served, &mut new, old);
        metadata::validate(call, &new, Some(old))?;
        if call.subresource.is_empty() {
            served.strategy.warnings(&new).into_iter().for_each(|text| call.warn(text));
        }
        let mut request = Request::new(call, Operation::Update, &mut new, Some(old), &mut also);
        self.admission.review(self, &mut request).await?;
        new.metadata_mut().insert("resourceVersion".into(), old.resource_version().into());
        let tracked = track(call, (old, managed.as_deref()), (&new, sent));
        let is_same = matches!(tracked, Tracked::Unchanged) && new == *old && also.ops.is_empty();
        let managed = match tracked {
            Tracked::Unchanged => managed,
            Tracked::Changed(fields) => fields,
        };
        let written = |object, managed, stored| Ok(Some(Written { object, managed, stored, created: false }));
        if is_same && !self.is_stale(call).await? {
            return written(new, managed, Some((entry.value.clone(), entry.revision)));
        }
        if call.options.dry_run {
            return written(new, managed, None);
        }
        let key = call.key();
        also.conditions.insert(0, Condition { key: key.clone(), revision: entry.revision });
        let value = if is_finished(served, &new) {
            also.ops.insert(0, Op::Delete { key });
            let mut request = Request::new(call, Operation::Delete, &mut new, Some(old), &mut also);
            self.admission.release(self, &mut request).await?;
            None
        } else {
            let value = codec::encode_with(served, &new, managed.as_deref())?;
            let value = self.to_stored(served, value).await?;
            also.ops.insert(0, Op::Put { key, value: value.clone() });
            Some(value)
        };
        match self.store.commit(also).await? {
            Outcome::Committed(revision) => {
                new.metadata_mut().insert("resourceVersion".into(), revision.to_string().into());
                written(new, managed, value.map(|value| (value, revision)))
            }
            Outcome::Conflict(_) => Ok(None),
        }
    }
}

fn restless(call: &Call) -> ApiError {
    ApiError::conflict(call.served.resource(), &call.name, "it changes too often; try again")
}

/// A terminating object that nothing holds any more.
pub(super) fn is_finished(served: &Served, object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let is_held = !object.finalizers().is_empty() || served.strategy.is_held(object);
    object.is_terminating() && grace == 0 && !is_held
}

/// The `managedFields` of a new object, taken out of it: who created it. An apply has written them itself.
pub(super) fn track_create(call: &Call, object: &mut Value) -> Option<Box<RawValue>> {
    let given = managed::take_managed_fields(object);
    if call.applies || call.options.field_manager.is_empty() {
        return given.and_then(|fields| to_raw_value(&fields).ok());
    }
    managed::track_create(object, call.served.schema(), &call.manager(), call.now)
}

/// The `managedFields` after a change: who changed what. An apply has written them itself.
fn track(call: &Call, old: (&Value, Option<&RawValue>), new: (&Value, Option<Value>)) -> Tracked {
    if call.applies {
        managed::keep_times(old, new)
    } else if call.options.field_manager.is_empty() {
        Tracked::Unchanged
    } else {
        managed::track_update(old, new, call.served.schema(), &call.manager(), call.now)
    }
}
