//! ServiceCIDR: a range that Service addresses come from.

use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde_json::{Value, json};

use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<ServiceCIDR>(Ranges).status()
}

struct Ranges;

impl Strategy for Ranges {
    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let cidrs = At::root(object).field("spec").field("cidrs");
        if !cidrs.is_set() {
            cidrs.required(errors, "at least one CIDR required");
        }
        if cidrs.len() > 2 {
            cidrs.invalid(errors, "may only hold up to 2 values");
        }
        let ipv6 = cidrs.items().filter(|cidr| cidr.text().contains(':')).count();
        if cidrs.len() == 2 && ipv6 != 1 {
            cidrs.invalid(errors, "may specify no more than one IP for each IP family");
        }
        for cidr in cidrs.items() {
            cidr.problems(errors, format::cidr(cidr.text()));
            if let Ok(net) = cidr.text().parse::<IpNet>()
                && net.addr() != net.network()
            {
                cidr.invalid(errors, format!("must be in canonical form (\"{}\")", net.trunc()));
            }
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let cidrs = |object| At::root(object).field("spec").field("cidrs");
        let (new, old) = (cidrs(object), cidrs(old));
        if new.len() < old.len() || new.items().zip(old.items()).any(|(new, old)| new.value != old.value) {
            new.invalid(errors, "field is immutable");
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "CIDRs", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            table::joined_or(&object["spec"]["cidrs"], "").into(),
            table::age(object, now),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    #[test]
    fn validation() {
        let range = |cidrs: Value| json!({"spec": {"cidrs": cidrs}});
        check::errors("servicecidrs", range(json!(["10.96.0.0/12", "fd00::/108"])), &[]);
        check::errors(
            "servicecidrs",
            range(json!([])),
            &["spec.cidrs: Required value: at least one CIDR required"],
        );
        check::errors(
            "servicecidrs",
            range(json!(["10.96.0.1/12"])),
            &["spec.cidrs[0]: Invalid value: \"10.96.0.1/12\": must be in canonical form (\"10.96.0.0/12\")"],
        );
        check::update_errors(
            "servicecidrs",
            range(json!(["10.0.0.0/8"])),
            range(json!(["11.0.0.0/8"])),
            &["spec.cidrs: Invalid value"],
        );
    }
}
