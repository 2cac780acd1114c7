//! Who may refer to objects of other namespaces.

use crate::kinds::{GROUP, ReferenceGrant};

/// What is referred to.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Whether an object of this kind (of the Gateway API) and namespace may refer to it. Within a namespace everybody may.
pub fn allowed<'g>(
    grants: impl IntoIterator<Item = &'g ReferenceGrant>,
    from: (&str, &str),
    wanted: Wanted<'_>,
) -> bool {
    let (kind, namespace) = from;
    if namespace == wanted.namespace {
        return true;
    }
    grants.into_iter().any(|grant| {
        let is_there = grant.metadata.namespace.as_deref() == Some(wanted.namespace)
            && grant.metadata.deletion_timestamp.is_none();
        let mut from = grant.spec.from.iter();
        let mut to = grant.spec.to.iter();
        is_there
            && from.any(|from| from.group == GROUP && from.kind == kind && from.namespace == namespace)
            && to.any(|to| {
                to.group == wanted.group
                    && to.kind == wanted.kind
                    && to.name.as_deref().is_none_or(|name| name.is_empty() || name == wanted.name)
            })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn grants_are_for_whom_they_name() {
        let grant: ReferenceGrant = serde_json::from_value(json!({
            "metadata": {"namespace": "shop"},
            "spec": {
                "from": [{"group": GROUP, "kind": "HTTPRoute", "namespace": "web"}],
                "to": [{"group": "", "kind": "Service", "name": "api"}],
            },
        }))
        .unwrap();
        let check = |from: (&str, &str), to: [&str; 3], expected: bool| {
            let wanted = Wanted { group: "", kind: to[0], namespace: to[1], name: to[2] };
            assert_eq!(allowed([&grant], from, wanted), expected, "{from:?} {to:?}");
        };
        check(("HTTPRoute", "web"), ["Service", "shop", "api"], true);
        check(("HTTPRoute", "web"), ["Service", "shop", "db"], false);
        check(("HTTPRoute", "web"), ["Secret", "shop", "api"], false);
        check(("GRPCRoute", "web"), ["Service", "shop", "api"], false);
        check(("HTTPRoute", "evil"), ["Service", "shop", "api"], false);
        check(("HTTPRoute", "web"), ["Service", "other", "api"], false);
        check(("HTTPRoute", "shop"), ["Service", "shop", "db"], true);
    }
}
