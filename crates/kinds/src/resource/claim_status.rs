//! The status of a ResourceClaim: which devices were given, who may use them, and what their drivers tell. Schedulers,
//! controllers and drivers write it; what it says must fit the claim, and devices are never taken from whoever has them.

use std::collections::HashSet;

use super::devices::is_request;
use crate::At;
use crate::{FieldErrors, format};

/// So many may use one claim at once.
const MAX_CONSUMERS: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
/// What a driver may tell of a device in its own words.
const MAX_DATA: usize = 10 << 10;
const LONGEST_POOL: usize = 253;

pub(super) fn validate_status(new: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    let (status, before) = (new.field("status"), old.field("status"));
    validate_consumers(new, &before, errors);
    let (allocation, allocated) = (status.field("allocation"), before.field("allocation"));
    match (allocated.exists(), allocation.exists()) {
        (true, true) => allocation.unchanged(errors, &allocated),
        (true, false) if before.field("reservedFor").is_set() && status.field("reservedFor").is_set() => {
            allocation.forbidden(errors, "may not be removed while the claim is reserved");
        }
        (false, true) => validate_allocation(&allocation, &new.field("spec").field("devices"), errors),
        _ => {}
    }
    validate_devices(&status.field("devices"), &allocation, errors);
}

/// Only what is allocated has users, and nobody begins to use what is being deleted.
fn validate_consumers(claim: &At<'_>, before: &At<'_>, errors: &mut FieldErrors) {
    let reserved = claim.field("status").field("reservedFor");
    if reserved.len() > MAX_CONSUMERS {
        errors.too_many(reserved.path.clone(), reserved.len(), MAX_CONSUMERS);
    }
    let mut seen = HashSet::new();
    for consumer in reserved.items() {
        consumer.field("resource").need(errors);
        consumer.field("name").need(errors);
        let uid = consumer.field("uid");
        if uid.need(errors) && !seen.insert(uid.text()) {
            uid.duplicate(errors);
        }
    }
    if reserved.is_set() && !claim.field("status").field("allocation").exists() {
        reserved.forbidden(errors, "may not be specified when `allocation` is not set");
    } else if claim.field("metadata").field("deletionTimestamp").is_set() {
        let users: Vec<At<'_>> = before.field("reservedFor").items().collect();
        let is_new = |uid: &str| users.iter().all(|user| user.field("uid").text() != uid);
        if seen.iter().any(|uid| is_new(uid)) {
            reserved.forbidden(errors, "new entries may not be added while `deletionTimestamp` is set");
        }
    }
}

/// A new allocation answers requests that the claim has, with devices that can exist.
fn validate_allocation(allocation: &At<'_>, devices: &At<'_>, errors: &mut FieldErrors) {
    let results = allocation.field("devices").field("results");
    if results.len() > MAX_RESULTS {
        errors.too_many(results.path.clone(), results.len(), MAX_RESULTS);
    }
    for result in results.items() {
        result.field("driver").need_form(errors, format::subdomain);
        validate_pool(&result.field("pool"), errors);
        result.field("device").need_form(errors, format::label);
        let request = result.field("request");
        if request.need(errors) && !is_request(request.text(), devices) {
            request.invalid(errors, "must be the name of a request in the claim, or REQUEST/ALTERNATIVE");
        }
    }
}

/// `NAME` or `NAME/NAME/…`, each a subdomain.
fn validate_pool(pool: &At<'_>, errors: &mut FieldErrors) {
    if !pool.need(errors) {
        return;
    }
    if pool.text().len() > LONGEST_POOL {
        pool.invalid(errors, format!("must be no more than {LONGEST_POOL} characters"));
    }
    for part in pool.text().split('/') {
        pool.problems(errors, format::subdomain(part));
    }
}

/// Drivers tell of devices that the claim has, of each once.
fn validate_devices(devices: &At<'_>, allocation: &At<'_>, errors: &mut FieldErrors) {
    let names = |device: &At<'_>| {
        ["driver", "pool", "device", "shareID"].map(|field| device.field(field).text().to_owned())
    };
    let allocated: HashSet<_> =
        allocation.field("devices").field("results").items().map(|result| names(&result)).collect();
    let mut seen = HashSet::new();
    for device in devices.items() {
        let name = names(&device);
        if !allocated.contains(&name) {
            device.invalid(errors, "must be an allocated device in the claim");
        }
        if !seen.insert(name) {
            device.duplicate(errors);
        }
        let conditions = device.field("conditions");
        if conditions.len() > MAX_CONDITIONS {
            errors.too_many(conditions.path.clone(), conditions.len(), MAX_CONDITIONS);
        }
        let data = device.field("data");
        if data.exists() && data.value.to_string().len() > MAX_DATA {
            data.forbidden(errors, format!("must be no more than {MAX_DATA} bytes"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn claim(status: Value) -> Value {
        let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
        json!({"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}, "status": status})
    }

    fn users(uids: &[&str]) -> Value {
        uids.iter().map(|uid| json!({"resource": "pods", "name": "p", "uid": uid})).collect()
    }

    fn result(device: &str) -> Value {
        json!({"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": device}]}})
    }

    #[track_caller]
    fn check(old: Value, new: Value, expected: &[&str]) {
        check::update_errors("resourceclaims", claim(new), claim(old), expected);
    }

    #[test]
    fn devices_are_not_taken_from_whoever_has_them() {
        let held = json!({"allocation": result("a"), "reservedFor": users(&["u"])});
        check(json!({}), held.clone(), &[]);
        check(held.clone(), json!({}), &[]);
        let other = json!({"allocation": result("b"), "reservedFor": users(&["u"])});
        check(held.clone(), other, &["status.allocation: Invalid value"]);
        let bare = json!({"reservedFor": users(&["u"])});
        check(held, bare, &["status.reservedFor: Forbidden", "status.allocation: Forbidden"]);
    }

    #[test]
    fn nobody_begins_to_use_what_is_deleted() {
        let deleted = |uids: &[&str]| {
            let mut claim = claim(json!({"allocation": result("a"), "reservedFor": users(uids)}));
            claim["metadata"]["deletionTimestamp"] = json!("2026-11-17T00:00:00Z");
            claim
        };
        let check = |new: &[&str], expected: &[&str]| {
            check::update_errors("resourceclaims", deleted(new), deleted(&["u", "v"]), expected);
        };
        check(&["u"], &[]);
        check(&[], &[]);
        check(&["u", "w"], &["status.reservedFor: Forbidden: new entries may not be added"]);
    }

    #[test]
    fn allocations_answer_requests_of_the_claim() {
        let given = |result: Value| json!({"allocation": {"devices": {"results": [result]}}});
        let bare = "status.allocation.devices.results[0]";
        check(
            json!({}),
            given(json!({"driver": "d"})),
            &[
                &format!("{bare}.pool: Required"),
                &format!("{bare}.device: Required"),
                &format!("{bare}.request: Required"),
            ],
        );
        let pool = json!({"request": "gpu", "driver": "d.example", "pool": "rack/node-1", "device": "gpu-0"});
        check(json!({}), given(pool), &[]);
        check(
            json!({}),
            given(json!({"request": "nic", "driver": "D", "pool": "a//b", "device": "../gpu"})),
            &[
                &format!("{bare}.driver: Invalid value"),
                &format!("{bare}.pool: Invalid value"),
                &format!("{bare}.device: Invalid value"),
                &format!("{bare}.request: Invalid value: \"nic\""),
            ],
        );
    }

    #[test]
    fn drivers_tell_of_allocated_devices_alone() {
        let held = |devices: Value| json!({"allocation": result("a"), "devices": devices});
        let told = |device: &str| json!({"driver": "d", "pool": "p", "device": device});
        check(held(json!([])), held(json!([told("a")])), &[]);
        check(
            held(json!([])),
            held(json!([told("b"), told("a"), told("a")])),
            &["status.devices[0]: Invalid value", "status.devices[2]: Duplicate value"],
        );
        let mut long = told("a");
        long["data"] = json!({"x": "y".repeat(11_000)});
        check(held(json!([])), held(json!([long])), &["status.devices[0].data: Forbidden"]);
    }
}
