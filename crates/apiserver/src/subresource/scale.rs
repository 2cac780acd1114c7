//! `scale`: the number of replicas of anything that has one.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v1::Scale;
use minik8s_api::{Column, FieldErrors, LabelSelector, Path, Subresource};
use serde_json::{Map, Value, json};

use crate::answer::{self, Body};
use crate::api::Api;
use crate::dispatch::Incoming;
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::{Call, PatchKind, patch_error};

pub async fn answer<B>(api: &Arc<Api>, call: &Call, incoming: &mut Incoming<B>) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let accepted = incoming.accepted()?;
    let paths = Paths::of(call)?;
    let content_type = incoming.header(CONTENT_TYPE).to_owned();
    let object = match incoming.info.verb.as_str() {
        "get" => api.registry.get(&call.served, &call.namespace, &call.name).await?,
        "update" => {
            let body = incoming.body().await?;
            let wanted = crate::registry::parse_any(call, &content_type, &body)?;
            super::check_typed::<Scale>(&wanted)?;
            let change = |old: &Value| paths.apply(call, old, &wanted);
            api.registry.change(call, change).await?.object
        }
        _ => {
            let kind = PatchKind::of(&content_type)?;
            let body = incoming.body().await?;
            let patch = match kind {
                PatchKind::Apply => crate::registry::read_yaml(&body)?.value,
                _ => crate::registry::parse_patch(&body)?,
            };
            let change = |old: &Value| {
                let mut scale = paths.scale_of(call, old);
                let patched = match kind {
                    PatchKind::Json => minik8s_patch::json::apply(&patch, &mut scale),
                    // A Scale has no lists to merge: the other three forms mean the same.
                    _ => minik8s_patch::merge::apply(&patch, &mut scale),
                };
                patched.map_err(|e| patch_error(&e))?;
                super::check_typed::<Scale>(&scale)?;
                paths.apply(call, old, &scale)
            };
            api.registry.change(call, change).await?.object
        }
    };
    if call.served.is_custom() && at(&object, &paths.spec_replicas).is_none() {
        let mut errors = FieldErrors::default();
        errors.required(Path::new(&paths.spec_replicas.join(".")), "the object cannot be scaled without it");
        return Err(ApiError::invalid(&call.served.group, &call.served.kind, &call.name, errors));
    }
    let scale = paths.scale_of(call, &object);
    answer::object(200, &accepted.form.shape_row(&columns(), cells(&scale), scale), accepted.encoding)
}

/// What `kubectl get --subresource=scale` shows.
fn columns() -> [Column; 4] {
    let column = |name, ty| Column::new(name, ty);
    [
        column("Name", "string"),
        column("Desired", "integer"),
        column("Available", "integer"),
        column("Age", "string"),
    ]
}

fn cells(scale: &Value) -> Vec<Value> {
    let age = minik8s_api::age(scale, Timestamp::now());
    vec![
        scale["metadata"]["name"].clone(),
        scale["spec"]["replicas"].clone(),
        scale["status"]["replicas"].clone(),
        age,
    ]
}

struct Paths {
    spec_replicas: Vec<String>,
    status_replicas: Vec<String>,
    selector: Option<Vec<String>>,
}

impl Paths {
    fn of(call: &Call) -> Result<Self> {
        let split = |path: &str| {
            path.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let found = call.served.subresources.iter().find_map(|sub| match sub {
            Subresource::Scale { spec_replicas, status_replicas, selector } => Some(Paths {
                spec_replicas: split(spec_replicas),
                status_replicas: split(status_replicas),
                selector: selector.as_deref().map(split),
            }),
            _ => None,
        });
        found.ok_or_else(ApiError::no_such_resource)
    }

    fn scale_of(&self, call: &Call, object: &Value) -> Value {
        let replicas = at(object, &self.spec_replicas).and_then(Value::as_i64).unwrap_or(0);
        let seen = at(object, &self.status_replicas).and_then(Value::as_i64).unwrap_or(0);
        let mut metadata = Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object["metadata"].get(field) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let mut scale = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
            "spec": {"replicas": replicas}, "status": {"replicas": seen},
        });
        if let Some(selector) = self.selector(call, object) {
            scale["status"]["selector"] = selector.into();
        }
        scale
    }

    /// The selector as text: custom kinds keep it in status, workloads in spec.
    fn selector(&self, call: &Call, object: &Value) -> Option<String> {
        if call.served.is_custom() {
            return at(object, self.selector.as_ref()?).and_then(Value::as_str).map(str::to_owned);
        }
        let selector = &object["spec"]["selector"];
        let parsed = if selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some() {
            LabelSelector::from_value(Some(selector))
        } else {
            LabelSelector::from_map(selector.as_object())
        };
        parsed.ok().map(|selector| selector.to_string())
    }

    /// The object with the replicas that the Scale asks for.
    fn apply(&self, call: &Call, old: &Value, scale: &Value) -> Result<Value> {
        if !scale.name().is_empty() && scale.name() != call.name {
            return Err(ApiError::bad_request("the name in the Scale does not match the name on the URL"));
        }
        let replicas = match &scale["spec"]["replicas"] {
            Value::Null => 0,
            value => value.as_i64().ok_or_else(|| {
                ApiError::bad_request(format!("spec.replicas: {value} is not a whole number"))
            })?,
        };
        if !(0..=i64::from(i32::MAX)).contains(&replicas) {
            let mut errors = FieldErrors::default();
            errors.invalid(
                Path::new("spec").field("replicas"),
                replicas,
                "must be greater than or equal to 0",
            );
            return Err(ApiError::invalid("autoscaling", "Scale", &call.name, errors));
        }
        let mut new = old.clone();
        if let Some((last, parents)) = self.spec_replicas.split_last() {
            let mut place = &mut new;
            for part in parents {
                object_at(place, part);
                place = &mut place[part.as_str()];
            }
            if let Some(place) = place.as_object_mut() {
                place.insert(last.clone(), replicas.into());
            }
        }
        let version = scale.resource_version();
        let version = if version.is_empty() { old.resource_version() } else { version }.to_owned();
        new.metadata_mut().insert("resourceVersion".into(), version.into());
        Ok(new)
    }
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, part| value.get(part))
}
