//! What a request wants to do, and the answer.

use crate::User;

/// What an authorizer looks at. Borrowed from the request (or from an access review).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes<'a> {
    /// `get`, `list`, `watch`, `create`, …; for paths the HTTP method in lower case.
    pub verb: &'a str,
    /// Empty for cluster-scoped resources and for requests across all namespaces.
    pub namespace: &'a str,
    /// Empty for the core group.
    pub api_group: &'a str,
    /// As it was asked for; rules do not look at it. Empty where any is meant.
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// Empty if the request names no single object.
    pub name: &'a str,
    /// `field=value` terms of the field selector. A selector only narrows, so leaving it out is safe.
    pub field_equals: &'a [(&'a str, &'a str)],
    /// Set instead of all above for requests such as `/healthz`.
    pub path: Option<&'a str>,
}

/// An authorizer of the cluster never forbids: others may still allow. If none does, the request is a 403.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allow {
        reason: String,
    },
    /// Nobody else is asked: a webhook's word.
    Deny {
        reason: String,
    },
    NoOpinion {
        reason: String,
    },
}

impl<'a> Attributes<'a> {
    /// `Attributes::resource("get", "", "pods").in_namespace("default").named("web")`
    pub fn resource(verb: &'a str, api_group: &'a str, resource: &'a str) -> Self {
        Attributes { verb, api_group, resource, ..Attributes::default() }
    }

    /// `Attributes::path("get", "/healthz")`
    pub fn path(verb: &'a str, path: &'a str) -> Self {
        Attributes { verb, path: Some(path), ..Attributes::default() }
    }

    pub fn in_namespace(self, namespace: &'a str) -> Self {
        Attributes { namespace, ..self }
    }

    pub fn named(self, name: &'a str) -> Self {
        Attributes { name, ..self }
    }

    pub fn version(self, version: &'a str) -> Self {
        Attributes { version, ..self }
    }

    pub fn subresource(self, subresource: &'a str) -> Self {
        Attributes { subresource, ..self }
    }

    pub fn selecting(self, field_equals: &'a [(&'a str, &'a str)]) -> Self {
        Attributes { field_equals, ..self }
    }

    /// The text of a 403, in the words that clients know.
    pub fn forbidden(&self, user: &User) -> String {
        let (user, verb) = (&user.name, self.verb);
        if let Some(path) = self.path {
            return format!("User {user:?} cannot {verb} path {path:?}");
        }
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{}", self.resource, self.subresource);
        let place = match self.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let group = self.api_group;
        format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}")
    }
}

impl Decision {
    pub fn allow(reason: impl Into<String>) -> Self {
        Decision::Allow { reason: reason.into() }
    }

    pub fn no_opinion(reason: impl Into<String>) -> Self {
        Decision::NoOpinion { reason: reason.into() }
    }

    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow { .. })
    }

    pub fn reason(&self) -> &str {
        match self {
            Decision::Allow { reason } | Decision::Deny { reason } | Decision::NoOpinion { reason } => reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_texts() {
        let check = |attributes: Attributes<'_>, expected| {
            assert_eq!(attributes.forbidden(&User::authenticated("jane", &[])), expected);
        };
        check(
            Attributes::resource("get", "", "pods").subresource("log").in_namespace("default").named("web"),
            r#"User "jane" cannot get resource "pods/log" in API group "" in the namespace "default""#,
        );
        check(
            Attributes::resource("list", "apps", "deployments"),
            r#"User "jane" cannot list resource "deployments" in API group "apps" at the cluster scope"#,
        );
        check(Attributes::path("get", "/metrics"), r#"User "jane" cannot get path "/metrics""#);
    }
}
