//! Which policies a request meets, each with a binding and a parameter.

use std::sync::Arc;

use serde_json::Value;

use super::definition::Binding;
use super::params;
use super::set::{Bound, Policy};
use crate::admission::Request;
use crate::admission::matching::{self, Subject};
use crate::error::Result;
use crate::registry::Registry;

/// A policy that is to look at the request.
pub struct Invocation<P> {
    pub policy: Arc<P>,
    pub binding: Arc<Binding>,
    pub subject: Subject,
    pub param: Option<Value>,
}

/// A policy that should look at the request and cannot.
pub struct Misconfigured<P> {
    pub policy: Arc<P>,
    pub binding: Arc<Binding>,
    pub why: String,
}

/// What a request meets.
pub struct Met<P> {
    pub invocations: Vec<Invocation<P>>,
    pub misconfigured: Vec<Misconfigured<P>>,
    /// Of the request; null if it has none.
    pub namespace: Value,
}

/// None if no policy is about it.
pub async fn meet<P: Policy>(
    bound: &[Bound<P>],
    registry: &Registry,
    request: &Request<'_>,
) -> Result<Option<Met<P>>> {
    let mut met = Met { invocations: Vec::new(), misconfigured: Vec::new(), namespace: Value::Null };
    if bound.is_empty() || matching::is_exempt(request.call) {
        return Ok(None);
    }
    for Bound { policy, bindings } in bound {
        let definition = policy.definition();
        let Some(subject) = definition.matching.subject(registry, request).await? else { continue };
        for binding in bindings {
            if let Some(matching) = &binding.matching
                && matching.subject(registry, request).await?.is_none()
            {
                continue;
            }
            let param = binding.param.as_ref();
            match params::collect(registry, definition, param, &request.call.namespace).await? {
                Ok(params) => met.invocations.extend(params.into_iter().map(|param| Invocation {
                    policy: policy.clone(),
                    binding: binding.clone(),
                    subject: subject.clone(),
                    param,
                })),
                Err(why) => {
                    let why = format!("failed to configure binding: {why}");
                    met.misconfigured.push(Misconfigured {
                        policy: policy.clone(),
                        binding: binding.clone(),
                        why,
                    });
                }
            }
        }
    }
    if met.invocations.is_empty() && met.misconfigured.is_empty() {
        return Ok(None);
    }
    if request.call.served.namespaced {
        met.namespace = matching::namespace(registry, &request.call.namespace).await?;
    }
    Ok(Some(met))
}
