//! DeviceTaintRule: taints devices from outside their driver.

use k8s_openapi::api::resource::v1::DeviceTaintRule;
use serde_json::{Value, json};

use crate::At;
use crate::{FieldErrors, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<DeviceTaintRule>(Rules).status().counted()
}

struct Rules;

impl Strategy for Rules {
    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let selector = spec.field("deviceSelector");
        selector.field("driver").has_form(errors, format::subdomain);
        if selector.field("device").is_set() && !selector.field("pool").is_set() {
            selector.field("pool").required(errors, "must be set when `device` is set");
        }
        let taint = spec.field("taint");
        taint.field("key").need_form(errors, format::qualified_name);
        taint.field("value").has_form(errors, format::label_value);
        taint.field("effect").need_one_of(errors, &["NoExecute", "NoSchedule", "None"]);
    }
}
