//! A kind by its coordinates, so that code that handles all kinds needs no type parameter.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Group, version, kind, plural and scope: enough to build every URL of a kind.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub namespaced: bool,
}

/// A typed Kubernetes object, of `k8s-openapi` or our own.
pub trait Object:
    kube::Resource<DynamicType = (), Scope: Scope>
    + Clone
    + fmt::Debug
    + PartialEq
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: kube::Resource<DynamicType = (), Scope: Scope>
        + Clone
        + fmt::Debug
        + PartialEq
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// Whether objects live in namespaces.
pub trait Scope {
    const NAMESPACED: bool;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl Kind {
    pub fn of<K: Object>() -> Self {
        Kind {
            group: K::group(&()),
            version: K::version(&()),
            kind: K::kind(&()),
            plural: K::plural(&()),
            namespaced: <K::Scope as Scope>::NAMESPACED,
        }
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `/apis/apps/v1/namespaces/NS/deployments`; without a namespace, all of them.
    pub fn collection_path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if self.namespaced && !namespace.is_empty() {
            format!("{root}/namespaces/{namespace}/{}", self.plural)
        } else {
            format!("{root}/{}", self.plural)
        }
    }

    pub fn object_path(&self, key: &crate::Key) -> String {
        format!("{}/{}", self.collection_path(&key.namespace), key.name)
    }
}

/// `pods`, `deployments.apps`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.plural)
        } else {
            write!(f, "{}.{}", self.plural, self.group)
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Node, Pod};

    use super::*;
    use crate::Key;

    #[test]
    fn paths() {
        let check = |kind: Kind, key: Key, path: &str| assert_eq!(kind.object_path(&key), path);
        check(Kind::of::<Pod>(), Key::new("a", "b"), "/api/v1/namespaces/a/pods/b");
        check(Kind::of::<Node>(), Key::new("", "n"), "/api/v1/nodes/n");
        check(Kind::of::<Deployment>(), Key::new("a", "d"), "/apis/apps/v1/namespaces/a/deployments/d");
        assert_eq!(Kind::of::<Deployment>().collection_path(""), "/apis/apps/v1/deployments");
    }
}
