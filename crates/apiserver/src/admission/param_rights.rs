//! Who writes a policy that reads parameters must be able to read them: its messages tell what they say.
//!
//! A policy takes `get` on everything of its `paramKind`, a binding `get` on what its `paramRef` names, or `list` where that
//! selects. A kind that is not served yet could become any other, so it takes the right on all of its group and version.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_api::{FieldErrors, Path};
use minik8s_auth::Attributes;
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::authorizer::Authorizer;
use crate::error::{ApiError, Result};
use crate::registry::Registry;

const GROUP: &str = "admissionregistration.k8s.io";

pub struct ParamRights {
    pub authorizer: Arc<Authorizer>,
}

#[async_trait]
impl Admission for ParamRights {
    async fn review(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        let is_written = matches!(request.operation, Operation::Create | Operation::Update);
        if call.served.group != GROUP || !call.subresource.is_empty() || !is_written {
            return Ok(());
        }
        let spec = &request.object["spec"];
        let is_as_before = |field: &str| request.old.is_some_and(|old| old["spec"][field] == spec[field]);
        let (field, why) = match call.served.plural.as_str() {
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => {
                let kind = &spec["paramKind"];
                if kind.is_null() || is_as_before("paramKind") || self.may_read_all(registry, request).await {
                    return Ok(());
                }
                ("paramKind", may_not_read_all(request, kind))
            }
            "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings" => {
                let param = &spec["paramRef"];
                let verb = if text_of(param, "name").is_empty() { "list" } else { "get" };
                let is_as_before = is_as_before("paramRef") && is_as_before("policyName");
                if param.is_null() || is_as_before || self.may_read_params(registry, request, verb).await {
                    return Ok(());
                }
                let user = &call.user.name;
                let why = format!(
                    "user {user:?} does not have {verb:?} permission on the object referenced by paramRef"
                );
                ("paramRef", why)
            }
            _ => return Ok(()),
        };
        let mut errors = FieldErrors::default();
        errors.forbidden(Path::new("spec").field(field), why);
        Err(ApiError::invalid(GROUP, &call.served.kind, request.name(), errors))
    }
}

impl ParamRights {
    async fn may_read_all(&self, registry: &Registry, request: &Request<'_>) -> bool {
        let params = Params::of(registry, &request.object["spec"]["paramKind"]);
        // `*` is the name of nothing: only who may read all objects may read it.
        self.may(request, "get", &params, "*", "*").await
    }

    async fn may_read_params(&self, registry: &Registry, request: &Request<'_>, verb: &str) -> bool {
        let spec = &request.object["spec"];
        let policies = request.call.served.plural.replace("policybindings", "policies");
        let name = text_of(spec, "policyName");
        let policy = match registry.built_in(GROUP, "v1", &policies) {
            Ok(policies) => registry.look(&policies, "", name).await.unwrap_or_default(),
            Err(_) => Value::Null,
        };
        let params = Params::of(registry, &policy["spec"]["paramKind"]);
        let param = &spec["paramRef"];
        self.may(request, verb, &params, text_of(param, "namespace"), text_of(param, "name")).await
    }

    async fn may(
        &self,
        request: &Request<'_>,
        verb: &str,
        params: &Params,
        namespace: &str,
        name: &str,
    ) -> bool {
        let wanted = Attributes::resource(verb, &params.group, &params.plural)
            .version(&params.version)
            .in_namespace(namespace)
            .named(name);
        self.authorizer.authorize(&request.call.user, &wanted).await.is_allowed()
    }
}

fn may_not_read_all(request: &Request<'_>, kind: &Value) -> String {
    format!(
        "user {:?} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
        request.call.user.name,
        text_of(kind, "kind"),
        text_of(kind, "apiVersion")
    )
}

fn text_of<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// What parameters are; `*` for what is not known.
struct Params {
    group: String,
    version: String,
    plural: String,
}

impl Params {
    fn of(registry: &Registry, kind: &Value) -> Self {
        let every = || "*".to_owned();
        let Some(api_version) = kind["apiVersion"].as_str() else {
            return Params { group: every(), version: every(), plural: every() };
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = kind["kind"].as_str().unwrap_or_default();
        let snapshot = registry.catalog.snapshot();
        let plural =
            snapshot.find_kind(group, version, kind).map_or_else(every, |served| served.plural.clone());
        Params { group: group.to_owned(), version: version.to_owned(), plural }
    }
}
