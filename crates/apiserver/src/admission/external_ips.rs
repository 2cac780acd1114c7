//! No new `externalIPs` of Services, unless the operator allows them.
//!
//! Whoever may write a Service could else take over the traffic of every node and pod to any address
//! (CVE-2020-8554). Upstream has this rule as the plugin DenyServiceExternalIPs, off, deprecated the field in
//! 1.36 and is about to drop it; here it is on from the start. Services that have such addresses keep and may
//! lose them.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

pub struct DenyExternalIps {
    pub is_allowed: bool,
}

#[async_trait]
impl Admission for DenyExternalIps {
    async fn review(&self, _: &Registry, request: &mut Request<'_>) -> Result<()> {
        if self.is_allowed || request.operation == Operation::Delete || !request.is_core("services") {
            return Ok(());
        }
        if new_addresses(request.object, request.old).next().is_none() {
            return Ok(());
        }
        let why = "Use of external IPs is denied by admission control.";
        Err(ApiError::forbidden(Some(request.call.served.resource()), request.object.name(), why))
    }
}

/// External addresses that the Service did not have before.
fn new_addresses<'a>(new: &'a Value, old: Option<&'a Value>) -> impl Iterator<Item = &'a Value> {
    let of = |service: &'a Value| service["spec"]["externalIPs"].as_array().into_iter().flatten();
    of(new).filter(move |address| !old.into_iter().flat_map(of).any(|known| known == *address))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn external_ips_are_new_if_the_service_did_not_have_them() {
        let service = |addresses: &[&str]| json!({"spec": {"externalIPs": addresses}});
        let cases = [
            (service(&["1.1.1.1"]), None, 1),
            (service(&[]), None, 0),
            (json!({"spec": {}}), None, 0),
            (service(&["1.1.1.1"]), Some(service(&["1.1.1.1", "2.2.2.2"])), 0),
            (service(&["1.1.1.1", "3.3.3.3"]), Some(service(&["1.1.1.1", "2.2.2.2"])), 1),
            (service(&["1.1.1.1"]), Some(json!({"spec": {}})), 1),
        ];
        for (new, old, expected) in cases {
            assert_eq!(new_addresses(&new, old.as_ref()).count(), expected, "{old:?} -> {new}");
        }
    }
}
