//! An audit event, as `audit.k8s.io/v1` has it. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use minik8s_auth::User;
use serde_json::{Value, json};

use super::policy::{Level, Stage, Verdict};
use crate::registry::read_yaml;
use crate::request::RequestInfo;

/// What is known of a request so far.
#[derive(Debug, Clone)]
pub struct Record {
    pub id: String,
    pub received: Timestamp,
    pub uri: String,
    pub user_agent: String,
    pub source: Option<String>,
    pub info: RequestInfo,
    pub user: User,
    /// As whom the user acts, where that is somebody else.
    pub impersonated: Option<User>,
    pub verdict: Verdict,
    pub annotations: BTreeMap<String, String>,
    pub request: Told,
    pub response: Told,
    pub code: u16,
    pub is_panic: bool,
}

/// A body as it travels.
#[derive(Debug, Clone, Default)]
pub struct Told {
    pub content_type: String,
    pub bytes: Bytes,
}

/// Larger bodies are left out, and the event says so.
pub const LARGEST_BODY: usize = 1 << 20;

impl Record {
    pub fn event(&self, stage: Stage, now: Timestamp) -> Value {
        let info = &self.info;
        let mut event = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": format!("{:?}", self.verdict.level),
            "auditID": self.id, "stage": format!("{stage:?}"), "requestURI": self.uri, "verb": info.verb,
            "user": user(&self.user), "requestReceivedTimestamp": time(self.received), "stageTimestamp": time(now),
        });
        if let Some(impersonated) = &self.impersonated {
            event["impersonatedUser"] = user(impersonated);
        }
        if let Some(source) = &self.source {
            event["sourceIPs"] = json!([source]);
        }
        if !self.user_agent.is_empty() {
            event["userAgent"] = self.user_agent.clone().into();
        }
        if info.is_resource {
            event["objectRef"] = object_ref(info);
        }
        if !self.annotations.is_empty() {
            event["annotations"] = json!(self.annotations);
        }
        if stage != Stage::RequestReceived {
            event["responseStatus"] = json!({"metadata": {}, "code": self.code});
        }
        if self.verdict.level >= Level::Request && stage != Stage::RequestReceived {
            self.put_body(&mut event, "requestObject", &self.request);
        }
        if self.verdict.level >= Level::RequestResponse && stage == Stage::ResponseComplete {
            self.put_body(&mut event, "responseObject", &self.response);
        }
        event
    }

    /// In JSON, whatever it travels in. What is no object is left out.
    fn put_body(&self, event: &mut Value, field: &str, body: &Told) {
        if body.bytes.is_empty() {
            return;
        }
        if body.bytes.len() > LARGEST_BODY {
            event["annotations"][format!("audit.k8s.io/{field}-omitted")] = "larger than 1 MiB".into();
            return;
        }
        if let Some(mut object) = body.object() {
            if self.verdict.omit_managed_fields
                && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
            {
                metadata.remove("managedFields");
            }
            event[field] = object;
        }
    }
}

impl Told {
    fn object(&self) -> Option<Value> {
        match self.content_type.split(';').next().unwrap_or_default().trim() {
            minik8s_protobuf::MEDIA_TYPE => minik8s_protobuf::decode_answer(&self.bytes).ok(),
            "application/yaml" | "text/yaml" | "application/x-yaml" | "application/apply-patch+yaml" => {
                read_yaml(&self.bytes).ok().map(|parsed| parsed.value)
            }
            _ => serde_json::from_slice(&self.bytes).ok(),
        }
    }
}

fn user(user: &User) -> Value {
    let mut told = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        told["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        told["extra"] = json!(user.extra);
    }
    told
}

fn object_ref(info: &RequestInfo) -> Value {
    let mut told = json!({"resource": info.resource, "apiVersion": info.version});
    for (name, value) in [
        ("namespace", &info.namespace),
        ("name", &info.name),
        ("apiGroup", &info.group),
        ("subresource", &info.subresource),
    ] {
        if !value.is_empty() {
            told[name] = value.clone().into();
        }
    }
    told
}

/// With microseconds, as upstream's.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
