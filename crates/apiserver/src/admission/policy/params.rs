//! The parameters of a policy: objects that a binding names or selects.
//!
//! They are read from the store when a request needs them, so that a parameter holds from the moment it is written.

use serde_json::Value;

use super::definition::{Definition, Param};
use crate::error::Result;
use crate::object::Object;
use crate::registry::Registry;

/// Once for each parameter; once without if the policy or the binding wants none. Err: what is wrong with them.
pub async fn collect(
    registry: &Registry,
    policy: &Definition,
    param: Option<&Param>,
    namespace: &str,
) -> Result<std::result::Result<Vec<Option<Value>>, String>> {
    let (Some(kind), Some(param)) = (&policy.param_kind, param) else { return Ok(Ok(vec![None])) };
    let api_version = kind.api_version.as_deref().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = kind.kind.as_deref().unwrap_or_default();
    let Some(served) = registry.catalog.snapshot().find_kind(group, version, kind).cloned() else {
        let why = "failed to find resource referenced by paramKind";
        return Ok(Err(format!("{why}: '{api_version}, Kind={kind}'")));
    };
    let namespace = match (served.namespaced, param.namespace.as_str()) {
        (false, "") => "",
        (false, _) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Ok(Err(why.to_owned()));
        }
        (true, "") if namespace.is_empty() => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Ok(Err(why.to_owned()));
        }
        (true, "") => namespace,
        (true, own) => own,
    };
    let found = match &param.name {
        Some(name) => match registry.look(&served, namespace, name).await {
            Ok(found) => vec![found],
            Err(error) if error.code == 404 => Vec::new(),
            Err(error) => return Err(error),
        },
        None => {
            let mut all = registry.all(&served, namespace).await?;
            all.retain(|object| param.selector.matches(object.labels()));
            all
        }
    };
    if found.is_empty() && param.is_needed {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Ok(Err(why.to_owned()));
    }
    Ok(Ok(found.into_iter().map(Some).collect()))
}
