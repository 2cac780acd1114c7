//! TokenReview: whose token is this?

use k8s_openapi::api::authentication::v1::TokenReview;
use serde_json::Value;

use crate::At;
use crate::{FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<TokenReview>(Reviews).review()
}

struct Reviews;

impl Strategy for Reviews {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let token = At::root(object).field("spec").field("token");
        if !token.is_set() {
            token.required(errors, "token is required for TokenReview in authentication");
        }
    }
}
