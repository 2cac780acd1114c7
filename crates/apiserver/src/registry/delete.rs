//! Deleting objects: at once, gracefully, or when the last finalizer is gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use minik8s_store::{Commit, Condition, Entry, Op, Outcome};
use serde_json::{Value, json};

use super::create::RETRIES;
use super::list::Selected;
use super::metadata::timestamp;
use super::update::is_finished;
use super::{Call, Registry};
use crate::admission::{Operation, Request};
use crate::codec;
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::request::{ListOptions, Query};

/// How to delete: from the body (`DeleteOptions`) or the query.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub grace_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// A century: more would not fit into a time.
const MAX_GRACE: i64 = 100 * 365 * 24 * 3600;
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

impl DeleteOptions {
    pub fn parse(query: &Query, body: Value) -> Result<Self> {
        let body: v1::DeleteOptions = serde_json::from_value(body)
            .map_err(|e| ApiError::bad_request(format!("the DeleteOptions cannot be read: {e}")))?;
        let grace_seconds = match (body.grace_period_seconds, query.get("gracePeriodSeconds")) {
            (None, None | Some("")) => None,
            (None, Some(text)) => Some(text.parse().map_err(|_| {
                ApiError::bad_request(format!("gracePeriodSeconds: {text:?} is not a whole number"))
            })?),
            (given, _) => given,
        };
        let orphan = body.orphan_dependents.or(query.get("orphanDependents").map(|v| v == "true"));
        let policy = body.propagation_policy.as_deref().or(query.get("propagationPolicy"));
        let dry_run = match body.dry_run.as_deref() {
            None | Some([]) => false,
            Some(stages) if stages.iter().all(|stage| stage == "All") => true,
            Some(stages) => {
                return Err(ApiError::bad_request(format!(
                    "dryRun: unsupported value {stages:?}: use \"All\""
                )));
            }
        };
        let preconditions = body.preconditions.unwrap_or_default();
        Ok(DeleteOptions {
            grace_seconds,
            propagation: propagation(policy, orphan)?,
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
            dry_run,
        })
    }

    /// Adds to `options` what was asked for, as the API writes it.
    pub fn describe(&self, options: &mut Value) {
        if let Some(seconds) = self.grace_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        for (field, wanted) in [("uid", &self.uid), ("resourceVersion", &self.resource_version)] {
            if let Some(wanted) = wanted {
                options["preconditions"][field] = wanted.as_str().into();
            }
        }
        if let Some(policy) = self.propagation {
            options["propagationPolicy"] = policy.name().into();
        }
    }
}

impl Propagation {
    fn name(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

fn propagation(policy: Option<&str>, orphan: Option<bool>) -> Result<Option<Propagation>> {
    match (policy, orphan) {
        (Some(_), Some(_)) => {
            Err(ApiError::bad_request("orphanDependents and propagationPolicy cannot be both set"))
        }
        (Some("Background"), None) | (None, Some(false)) => Ok(Some(Propagation::Background)),
        (Some("Foreground"), None) => Ok(Some(Propagation::Foreground)),
        (Some("Orphan"), None) | (None, Some(true)) => Ok(Some(Propagation::Orphan)),
        (Some(other), None) => Err(ApiError::bad_request(format!(
            "propagationPolicy: unsupported value {other:?}: use \"Foreground\", \"Background\" or \"Orphan\""
        ))),
        (None, None) => Ok(None),
    }
}

/// What a delete did.
pub struct Deleted {
    pub object: Value,
    /// False: the object is still there, terminating.
    pub gone: bool,
}

impl Registry {
    pub async fn delete(&self, call: &Call, options: &DeleteOptions) -> Result<Deleted> {
        for _ in 0..RETRIES {
            let entry = self.entry(&call.served, &call.namespace, &call.name).await?;
            if let Some(deleted) = self.try_delete(call, &entry, options).await? {
                return Ok(deleted);
            }
        }
        Err(ApiError::conflict(call.served.resource(), &call.name, "it changes too often; try again"))
    }

    /// Deletes everything that the options select; returns what was selected.
    pub async fn delete_collection(
        &self,
        call: &Call,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Vec<Value>> {
        let Selected { entries, .. } = self.select(&call.served, &call.namespace, list).await?;
        let mut deleted = Vec::with_capacity(entries.len());
        for entry in entries {
            let object = codec::decode(&call.served, &entry)?;
            match self.delete(&call.on(object.namespace(), object.name()), options).await {
                Ok(done) => deleted.push(done.object),
                // Someone else was faster: that is what was wanted.
                Err(e) if e.code == 404 => {}
                Err(e) => return Err(e),
            }
        }
        Ok(deleted)
    }

    async fn try_delete(
        &self,
        call: &Call,
        entry: &Entry,
        options: &DeleteOptions,
    ) -> Result<Option<Deleted>> {
        let served = &call.served;
        let old = codec::decode(served, entry)?;
        check_preconditions(call, &old, options)?;
        let mut also = Commit::default();
        let mut ignored = old.clone();
        let mut request = Request::new(call, Operation::Delete, &mut ignored, Some(&old), &mut also);
        request.delete = Some(options);
        self.admission.admit(self, &mut request).await?;
        let mut object = old.clone();
        mark_terminating(call, &mut object, options);
        let gone = is_finished(served, &object);
        if object == old && !gone {
            return Ok(Some(Deleted { object, gone }));
        }
        if call.options.dry_run {
            return Ok(Some(Deleted { object, gone }));
        }
        let key = call.key();
        also.conditions.insert(0, Condition { key: key.clone(), revision: entry.revision });
        if gone {
            also.ops.insert(0, Op::Delete { key });
            let mut request = Request::new(call, Operation::Delete, &mut object, Some(&old), &mut also);
            self.admission.release(self, &mut request).await?;
        } else {
            let value = self.to_stored(served, codec::encode(served, &object)?).await?;
            also.ops.insert(0, Op::Put { key, value });
        }
        match self.store.commit(also).await? {
            Outcome::Committed(revision) => {
                object.metadata_mut().insert("resourceVersion".into(), revision.to_string().into());
                Ok(Some(Deleted { object, gone }))
            }
            Outcome::Conflict(_) => Ok(None),
        }
    }
}

fn check_preconditions(call: &Call, object: &Value, options: &DeleteOptions) -> Result<()> {
    let failed = |what: &str, wanted: &str, found: &str| {
        let why =
            format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Err(ApiError::conflict(call.served.resource(), &call.name, why))
    };
    match (&options.uid, &options.resource_version) {
        (Some(uid), _) if uid != object.uid() => failed("UID", uid, object.uid()),
        (_, Some(version)) if version != object.resource_version() => {
            failed("ResourceVersion", version, object.resource_version())
        }
        _ => Ok(()),
    }
}

/// Sets deletionTimestamp, grace period and the finalizers that the propagation policy asks for. A second
/// delete may only shorten the grace period.
fn mark_terminating(call: &Call, object: &mut Value, options: &DeleteOptions) {
    let grace = call.served.strategy.grace_seconds(object, options.grace_seconds).clamp(0, MAX_GRACE);
    let running = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    let was_terminating = object.is_terminating();
    let metadata = object.metadata_mut();
    if !was_terminating || running.is_some_and(|running| grace < running) {
        let end = call.now + std::time::Duration::from_secs(grace.unsigned_abs());
        metadata.insert("deletionTimestamp".into(), timestamp(end).into());
        metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    }
    if !was_terminating {
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation".into(), (generation + 1).into());
        }
        call.served.strategy.prepare_delete(object);
    }
    let Some(policy) = options.propagation else { return };
    let wanted = match policy {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    let mut finalizers: Vec<String> = object.finalizers().iter().map(|&f| f.to_owned()).collect();
    finalizers.retain(|f| f != FOREGROUND && f != ORPHAN);
    finalizers.extend(wanted.map(str::to_owned));
    let metadata = object.metadata_mut();
    if finalizers.is_empty() {
        metadata.shift_remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
}
