//! LocalSubjectAccessReview: may this user do that in a namespace?

use k8s_openapi::api::authorization::v1::LocalSubjectAccessReview;
use serde_json::Value;

use super::access_review::{validate_local, validate_question, validate_subject};
use crate::At;
use crate::{FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<LocalSubjectAccessReview>(Reviews).review()
}

struct Reviews;

impl Strategy for Reviews {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        validate_question(&spec, errors);
        validate_subject(&spec, errors);
        validate_local(object, errors);
    }
}
