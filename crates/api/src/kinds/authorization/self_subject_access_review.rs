//! SelfSubjectAccessReview: may I do that?

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use serde_json::Value;

use super::access_review::validate_question;
use crate::kinds::at::At;
use crate::{FieldErrors, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<SelfSubjectAccessReview>(Reviews).only(&["create"])
}

struct Reviews;

impl Strategy for Reviews {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        validate_question(&spec, errors);
    }
}
