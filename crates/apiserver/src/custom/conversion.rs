//! Conversion webhooks: web services that turn objects of a custom kind from one of its versions into another.
//!
//! Objects are converted when they leave the store in another version than they are asked for in, and before they go
//! there in another than they are stored in. Nothing else of the server knows of it. A webhook may change everything
//! but the metadata, of which it may change labels and annotations.

use bytes::Bytes;
use futures::future::BoxFuture;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::object::Object;
use crate::registry::Registry;
use crate::webhook_client::Client;

/// As upstream waits.
const TIMEOUT_SECONDS: i32 = 30;

/// How the objects of a kind are converted.
pub struct Conversion {
    kind: String,
    client: Client,
    /// Of the `ConversionReview`.
    review_version: String,
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    converted_objects: Vec<Value>,
    #[serde(default)]
    result: Value,
}

impl Conversion {
    /// None: versions differ in nothing but their name.
    pub fn of(definition: &Value) -> Option<Self> {
        let conversion = &definition["spec"]["conversion"];
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let config: WebhookClientConfig =
            serde_json::from_value(webhook["clientConfig"].clone()).unwrap_or_default();
        let versions = webhook["conversionReviewVersions"].as_array().into_iter().flatten();
        let mut known = versions.filter_map(Value::as_str).filter(|name| matches!(*name, "v1" | "v1beta1"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some(Conversion {
            kind: text(&definition["spec"]["names"]["kind"]),
            client: Client::new(&config, TIMEOUT_SECONDS),
            review_version: known.next().unwrap_or("v1").to_owned(),
        })
    }

    /// The objects in this API version, in the same order; else why not.
    ///
    /// On the heap: to find the webhook's endpoint, objects are read, which may need conversion themselves for all that
    /// the compiler knows.
    pub fn convert<'a>(
        &'a self,
        registry: &'a Registry,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, String>> {
        Box::pin(async move {
            let uid = uuid::Uuid::new_v4().to_string();
            let review = json!({
                "kind": "ConversionReview",
                "apiVersion": format!("apiextensions.k8s.io/{}", self.review_version),
                "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": objects},
            });
            let from = objects.first().map(|object| object["apiVersion"].clone()).unwrap_or_default();
            let failed = |why: String| {
                let (from, kind) = (from.as_str().unwrap_or_default(), &self.kind);
                format!("conversion webhook for {from}, Kind={kind} failed: {why}")
            };
            let answer = self.client.post(registry, Bytes::from(review.to_string())).await.map_err(failed)?;
            accept(&answer, &uid, objects, api_version).map_err(failed)
        })
    }
}

fn accept(answer: &[u8], uid: &str, objects: Vec<Value>, api_version: &str) -> Result<Vec<Value>, String> {
    let review: Review = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let response = review.response.ok_or("no response provided")?;
    if response.uid != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", response.uid));
    }
    if response.result["status"] != "Success" {
        let message = response.result["message"].as_str().unwrap_or("it gave no reason");
        return Err(message.to_owned());
    }
    if response.converted_objects.len() != objects.len() {
        let (wanted, got) = (objects.len(), response.converted_objects.len());
        return Err(format!("expected {wanted} converted objects, got {got}"));
    }
    let pairs = objects.into_iter().zip(response.converted_objects);
    pairs.enumerate().map(|(index, (before, after))| restore(index, &before, after, api_version)).collect()
}

/// The converted object with the metadata that it had.
fn restore(index: usize, before: &Value, mut after: Value, api_version: &str) -> Result<Value, String> {
    let invalid = |why: String| format!("invalid converted object at index {index}: {why}");
    if after["apiVersion"] != api_version {
        let got = &after["apiVersion"];
        return Err(invalid(format!("invalid groupVersion (expected {api_version}, received {got})")));
    }
    if after["kind"] != before["kind"] {
        let (wanted, got) = (&before["kind"], &after["kind"]);
        return Err(invalid(format!("invalid kind (expected {wanted}, received {got})")));
    }
    for field in ["name", "namespace", "uid"] {
        if after["metadata"][field] != before["metadata"][field] {
            return Err(invalid(format!("invalid metadata of {}: {field} was changed", before.name())));
        }
    }
    let mut metadata = before["metadata"].clone();
    for field in ["labels", "annotations"] {
        match after["metadata"].get(field) {
            Some(value) => metadata[field] = value.clone(),
            None => drop(metadata.as_object_mut().and_then(|metadata| metadata.shift_remove(field))),
        }
    }
    after["metadata"] = metadata;
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(result: Value, objects: Value) -> Result<Vec<Value>, String> {
        let before = json!({"kind": "K", "apiVersion": "a/v1", "metadata": {"name": "x", "uid": "u", "finalizers": ["f"], "labels": {"a": "b"}}});
        let review = json!({"response": {"uid": "r", "result": result, "convertedObjects": objects}});
        accept(review.to_string().as_bytes(), "r", vec![before], "a/v2")
    }

    #[test]
    fn metadata_stays_but_for_labels_and_annotations() {
        let object = json!({"kind": "K", "apiVersion": "a/v2", "host": "h",
            "metadata": {"name": "x", "uid": "u", "annotations": {"c": "d"}}});
        let converted = answer(json!({"status": "Success"}), json!([object])).unwrap();
        assert_eq!(
            converted[0]["metadata"],
            json!({"name": "x", "uid": "u", "finalizers": ["f"], "annotations": {"c": "d"}})
        );
        assert_eq!(converted[0]["host"], "h");
    }

    #[test]
    fn answers_that_do_not_fit_are_refused() {
        let check = |result: Value, objects: Value, expected: &str| {
            let why = answer(result, objects).unwrap_err();
            assert!(why.contains(expected), "{why}");
        };
        let good = json!({"status": "Success"});
        let object = |field: &str, value: &str| {
            let mut object =
                json!({"kind": "K", "apiVersion": "a/v2", "metadata": {"name": "x", "uid": "u"}});
            *object.pointer_mut(field).unwrap() = value.into();
            json!([object])
        };
        check(json!({"status": "Failure", "message": "no"}), json!([]), "no");
        check(good.clone(), json!([]), "expected 1 converted objects, got 0");
        check(good.clone(), object("/apiVersion", "a/v1"), "expected a/v2, received \"a/v1\"");
        check(good.clone(), object("/kind", "L"), "invalid kind");
        check(good, object("/metadata/name", "y"), "name was changed");
    }
}
