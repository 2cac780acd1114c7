//! The four kinds of patch.

use minik8s_patch::apply::{self, ApplyError};
use minik8s_patch::{PatchError, json, merge, strategic};
use serde_json::Value;

use super::body::{check_depth, check_identity, read_yaml, yaml_error};
use super::update::ManagedFields;
use super::{Call, Registry, Written};
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::request::FieldValidation;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
    Strategic,
    /// Server-side apply.
    Apply,
}

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl PatchKind {
    pub fn of(content_type: &str) -> Result<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            JSON => Ok(PatchKind::Json),
            MERGE => Ok(PatchKind::Merge),
            STRATEGIC => Ok(PatchKind::Strategic),
            APPLY => Ok(PatchKind::Apply),
            other => Err(ApiError::unsupported_media(other, &[JSON, MERGE, STRATEGIC, APPLY])),
        }
    }
}

impl Registry {
    pub async fn patch(&self, call: &Call, kind: PatchKind, body: &[u8]) -> Result<Written> {
        if kind == PatchKind::Apply {
            return self.server_side_apply(call, body).await;
        }
        let patch = parse_patch(body)?;
        if kind == PatchKind::Strategic && call.served.is_custom() {
            return Err(ApiError::unsupported_media(STRATEGIC, &[JSON, MERGE, APPLY]));
        }
        // Operations on paths may look at anything, also to test it.
        let managed_fields = match patch["metadata"].get("managedFields") {
            None if kind != PatchKind::Json => ManagedFields::Hidden,
            _ => ManagedFields::Shown,
        };
        self.change_seeing(call, managed_fields, |old| self.patched(call, kind, &patch, old)).await
    }

    fn patched(&self, call: &Call, kind: PatchKind, patch: &Value, old: &Value) -> Result<Value> {
        let mut new = old.clone();
        let applied = match kind {
            PatchKind::Json => json::apply(patch, &mut new),
            PatchKind::Strategic => strategic::apply(call.served.schema(), patch, &mut new),
            PatchKind::Merge | PatchKind::Apply => merge::apply(patch, &mut new),
        };
        applied.map_err(|e| patch_error(&e))?;
        if !new.is_object() {
            return Err(ApiError::bad_request("the patch leaves something that is not an object"));
        }
        check_depth(&new)?;
        check_identity(&call.served, &mut new)?;
        self.check_schema(call, &mut new)?;
        Ok(new)
    }

    /// The configuration to apply: of this kind, and with no other fields than the kind has.
    fn read_applied(&self, call: &Call, body: &[u8]) -> Result<Value> {
        let mut parsed = read_yaml(body)?;
        let applied = &mut parsed.value;
        if !applied.is_object() {
            return Err(ApiError::bad_request("the applied configuration must be an object"));
        }
        if applied["kind"].is_null() || applied["apiVersion"].is_null() {
            return Err(ApiError::bad_request("the applied configuration must have apiVersion and kind"));
        }
        check_identity(&call.served, applied)?;
        if applied["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        apply::check_declared(applied, call.served.schema()).map_err(|e| undeclared(call, applied, &e))?;
        if call.options.field_validation == FieldValidation::Strict
            && let Some(error) = yaml_error(&parsed.duplicates)
        {
            let text = format!("error strict decoding patch: error converting YAML to JSON: {error}");
            return Err(ApiError::bad_request(text));
        }
        self.check_parsed(call, &mut parsed)?;
        Ok(parsed.value)
    }

    async fn server_side_apply(&self, call: &Call, body: &[u8]) -> Result<Written> {
        let mut applied = self.read_applied(call, body)?;
        // The URL says which object; repeating it in the body is optional.
        for (field, of_url) in [("name", &call.name), ("namespace", &call.namespace)] {
            let given = applied["metadata"][field].as_str().unwrap_or_default();
            if !given.is_empty() && !of_url.is_empty() && given != of_url {
                return Err(ApiError::bad_request(format!(
                    "metadata.{field} ({given}) does not match the {field} on the URL ({of_url})"
                )));
            }
            if given.is_empty() && !of_url.is_empty() && (field == "name" || call.served.namespaced) {
                applied.metadata_mut().insert(field.to_owned(), of_url.as_str().into());
            }
        }
        let manager = call.manager();
        let call = &Call { applies: true, ..call.on(&call.namespace, &call.name) };
        let merge = |live: Option<&Value>| {
            apply::server_side(live, &applied, call.served.schema(), &manager, call.options.force, call.now)
                .map_err(|e| apply_error(call, e))
        };
        // Two tries: the object may appear or vanish between the look and the write.
        for _ in 0..8 {
            let exists = self.store.get(&call.key()).await?.is_some();
            let result = if exists {
                self.change_seeing(call, ManagedFields::Shown, |old| merge(Some(old))).await
            } else if !call.served.verbs.contains(&"create") {
                return Err(ApiError::method_not_allowed(&http::Method::PATCH));
            } else if !call.subresource.is_empty() {
                Err(ApiError::not_found(call.served.resource(), &call.name))
            } else if !applied.uid().is_empty() {
                return Err(ApiError::conflict(
                    call.served.resource(),
                    &call.name,
                    "uid mismatch: the provided object specified uid, and no existing object was found",
                ));
            } else {
                let mut object = merge(None)?;
                // Nobody owns what he may not change; some kinds may begin with it all the same.
                if call.served.strategy.keeps_status_on_create()
                    && let Some(status) = applied.get("status")
                {
                    object["status"] = status.clone();
                }
                call.served.strategy.default(&mut object);
                self.create(call, object).await
            };
            match result {
                Err(e) if e.reason == "AlreadyExists" => {}
                Err(e) if exists && e.code == 404 => {}
                other => return other,
            }
        }
        Err(ApiError::modified(call.served.resource(), &call.name))
    }
}

/// A patch that is not an apply.
pub fn parse_patch(body: &[u8]) -> Result<Value> {
    match minik8s_schema::parse_json(body) {
        Ok((patch, _)) => Ok(patch),
        Err(e) => Err(ApiError::bad_request(format!("the patch is not valid JSON: {e}"))),
    }
}

pub fn patch_error(error: &PatchError) -> ApiError {
    match error.status() {
        413 => ApiError::new(413, "RequestEntityTooLarge", error.to_string()),
        422 => ApiError::new(422, "Invalid", error.to_string()),
        _ => ApiError::bad_request(error.to_string()),
    }
}

/// Upstream's code and words: whoever applies sees the server fail, not a refusal with a reason.
fn undeclared(call: &Call, applied: &Value, error: &ApplyError) -> ApiError {
    let (group, version, kind) = (&call.served.group, &call.served.version, &call.served.kind);
    let (namespace, name) = (applied.namespace(), applied.name());
    ApiError::new(
        500,
        "",
        format!(
            "failed to create typed patch object ({namespace}/{name}; {group}/{version}, Kind={kind}): {error}"
        ),
    )
}

fn apply_error(call: &Call, error: ApplyError) -> ApiError {
    match error {
        ApplyError::Conflict(conflicts) => {
            let mut api = ApiError::new(409, "Conflict", conflicts.to_string());
            for conflict in conflicts.iter() {
                api = api.caused_by("FieldManagerConflict", &conflict.message(), &conflict.path.to_string());
            }
            api
        }
        error if error.status() == 500 => {
            ApiError::internal(format_args!("{} {}: {error}", call.served.qualified(), call.name))
        }
        error => ApiError::bad_request(error.to_string()),
    }
}
