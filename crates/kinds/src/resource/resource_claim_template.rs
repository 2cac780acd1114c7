//! ResourceClaimTemplate: makes a ResourceClaim for each pod.

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use serde_json::Value;

use super::devices::{default_claim, validate_claim};
use crate::At;
use crate::metadata::{validate_annotations, validate_labels};
use crate::{FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<ResourceClaimTemplate>(Templates)
}

struct Templates;

impl Strategy for Templates {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.pointer_mut("/spec/spec") {
            default_claim(spec);
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let template = At::root(object).field("spec");
        let metadata = template.field("metadata");
        validate_labels(&metadata.value["labels"], &metadata.path.field("labels"), errors);
        validate_annotations(&metadata.value["annotations"], &metadata.path.field("annotations"), errors);
        validate_claim(&template.field("spec"), errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("spec").unchanged(errors, &At::root(old).field("spec"));
    }
}
