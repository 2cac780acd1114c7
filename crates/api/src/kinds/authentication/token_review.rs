//! TokenReview: whose token is this?

use k8s_openapi::api::authentication::v1::TokenReview;
use serde_json::Value;

use crate::kinds::at::At;
use crate::{FieldErrors, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<TokenReview>(Reviews).only(&["create"])
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
