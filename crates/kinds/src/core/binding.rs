//! Binding: puts a pod on a node (the old way to post to pods/binding).

use k8s_openapi::api::core::v1::Binding;
use serde_json::Value;

use crate::At;
use crate::{FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<Binding>(Bindings).review()
}

struct Bindings;

impl Strategy for Bindings {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let target = At::root(object).field("target");
        let kind = target.field("kind");
        if kind.is_set() && kind.text() != "Node" {
            kind.not_supported(errors, &["Node", "<empty>"]);
        }
        target.field("name").need(errors);
    }
}
