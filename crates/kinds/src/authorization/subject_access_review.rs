//! SubjectAccessReview: may this user do that?

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use serde_json::Value;

use super::access_review::{validate_question, validate_subject};
use crate::At;
use crate::{FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<SubjectAccessReview>(Reviews).review()
}

struct Reviews;

impl Strategy for Reviews {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        validate_question(&spec, errors);
        validate_subject(&spec, errors);
    }
}
