//! Who asks for a certificate is what the server knows, not what the request says: approvers rely on it.

use async_trait::async_trait;
use serde_json::json;

use super::{Admission, Operation, Request};
use crate::error::Result;
use crate::object::object_at;
use crate::registry::Registry;

pub struct Requester;

#[async_trait]
impl Admission for Requester {
    async fn admit(&self, _: &Registry, request: &mut Request<'_>) -> Result<()> {
        let served = &request.call.served;
        let is_signing_request =
            served.group == "certificates.k8s.io" && served.plural == "certificatesigningrequests";
        if !is_signing_request || request.operation != Operation::Create {
            return Ok(());
        }
        let user = &request.call.user;
        let spec = object_at(request.object, "spec");
        spec.insert("username".into(), user.name.as_str().into());
        spec.insert("groups".into(), json!(user.groups));
        spec.shift_remove("uid");
        if !user.uid.is_empty() {
            spec.insert("uid".into(), user.uid.as_str().into());
        }
        spec.shift_remove("extra");
        if !user.extra.is_empty() {
            spec.insert("extra".into(), json!(user.extra));
        }
        Ok(())
    }
}
