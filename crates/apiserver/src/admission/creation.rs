//! Who creates by applying a patch or by putting must be allowed to create.
//!
//! The request itself was allowed as a `patch` or an `update`: that nothing was there to change shows only
//! now.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_auth::Attributes;

use super::{Admission, Operation, Request};
use crate::authorizer::Authorizer;
use crate::error::{ApiError, Result};
use crate::registry::Registry;

pub struct Creation {
    pub authorizer: Arc<Authorizer>,
}

#[async_trait]
impl Admission for Creation {
    async fn admit(&self, _: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        // A POST is to a collection and has been judged as what it is.
        if request.operation != Operation::Create || call.name.is_empty() || !call.subresource.is_empty() {
            return Ok(());
        }
        let wanted = Attributes::resource("create", &call.served.group, &call.served.plural)
            .in_namespace(&call.namespace)
            .named(&call.name);
        if self.authorizer.authorize(&call.user, &wanted).await.is_allowed() {
            return Ok(());
        }
        let why = wanted.forbidden(&call.user);
        Err(ApiError::forbidden(Some(call.served.resource()), &call.name, why))
    }
}
