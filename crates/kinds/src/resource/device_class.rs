//! DeviceClass: a kind of device that claims can ask for.

use k8s_openapi::api::resource::v1::DeviceClass;
use serde_json::Value;

use super::devices::validate_selectors;
use crate::At;
use crate::{FieldErrors, Resource, Strategy, format};

pub(crate) fn resource() -> Resource {
    Resource::of::<DeviceClass>(Classes).counted()
}

struct Classes;

impl Strategy for Classes {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        validate_selectors(&spec.field("selectors"), errors);
        spec.field("extendedResourceName").has_form(errors, format::qualified_name);
    }
}
