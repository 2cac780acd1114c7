//! Bindings, indexed by the users and groups that they name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{RoleRef as ApiRoleRef, Subject};

use crate::User;
use crate::user::service_account_user_name;

/// What a binding grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleRef {
    /// A Role in the binding's own namespace.
    Role(String),
    ClusterRole(String),
}

#[derive(Debug)]
pub struct Binding {
    /// Empty for a ClusterRoleBinding.
    pub namespace: String,
    pub name: String,
    pub role: RoleRef,
    subjects: Vec<Named>,
}

/// A subject that can match; service accounts are users with a certain name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Named {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

#[derive(Debug, Default)]
pub struct Bindings {
    all: HashMap<(String, String), Arc<Binding>>,
    by_user: HashMap<String, Bound>,
    by_group: HashMap<String, Bound>,
}

/// Everything that one subject is bound to, by the name of the binding for a stable order.
#[derive(Debug, Default)]
struct Bound {
    cluster: BTreeMap<String, Arc<Binding>>,
    in_namespace: HashMap<String, BTreeMap<String, Arc<Binding>>>,
}

impl Bindings {
    pub fn upsert(&mut self, binding: Binding) {
        self.remove(&binding.namespace, &binding.name);
        let binding = Arc::new(binding);
        for subject in &binding.subjects {
            let (index, key) = self.index_of(subject);
            let bound = index.entry(key).or_default();
            bound.list(&binding.namespace).insert(binding.name.clone(), binding.clone());
        }
        self.all.insert((binding.namespace.clone(), binding.name.clone()), binding);
    }

    pub fn remove(&mut self, namespace: &str, name: &str) {
        let Some(binding) = self.all.remove(&(namespace.to_owned(), name.to_owned())) else { return };
        for subject in &binding.subjects {
            let (index, key) = self.index_of(subject);
            let Some(bound) = index.get_mut(&key) else { continue };
            bound.list(namespace).remove(name);
            bound.in_namespace.retain(|_, list| !list.is_empty());
            if bound.cluster.is_empty() && bound.in_namespace.is_empty() {
                index.remove(&key);
            }
        }
    }

    fn index_of(&mut self, subject: &Named) -> (&mut HashMap<String, Bound>, String) {
        match subject {
            Named::Group(name) => (&mut self.by_group, name.clone()),
            Named::User(name) => (&mut self.by_user, name.clone()),
            Named::ServiceAccount { namespace, name } => {
                (&mut self.by_user, service_account_user_name(namespace, name))
            }
        }
    }

    /// ClusterRoleBindings of the user, then the RoleBindings in the namespace (none if it is empty).
    pub fn of<'a>(&'a self, user: &'a User, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Binding>> {
        let bound = move || {
            let groups = user.groups.iter().filter_map(|group| self.by_group.get(group));
            self.by_user.get(&user.name).into_iter().chain(groups)
        };
        let cluster = bound().flat_map(|b| b.cluster.values());
        cluster.chain(bound().filter_map(move |b| b.in_namespace.get(namespace)).flat_map(|l| l.values()))
    }
}

impl Bound {
    fn list(&mut self, namespace: &str) -> &mut BTreeMap<String, Arc<Binding>> {
        if namespace.is_empty() {
            return &mut self.cluster;
        }
        self.in_namespace.entry(namespace.to_owned()).or_default()
    }
}

impl Binding {
    /// Subjects that can never match (a service account without a namespace, an unknown kind) are left out.
    pub fn new(namespace: &str, name: &str, role: &ApiRoleRef, subjects: Option<Vec<Subject>>) -> Self {
        let subjects = subjects.unwrap_or_default();
        let subjects = subjects.into_iter().filter_map(|s| Named::new(s, namespace)).collect();
        let role = RoleRef::from(role);
        Binding { namespace: namespace.to_owned(), name: name.to_owned(), role, subjects }
    }

    /// `ClusterRoleBinding "x" of ClusterRole "y" to Group "z"`.
    pub fn describe(&self, user: &User) -> String {
        let binding = match self.namespace.as_str() {
            "" => format!("ClusterRoleBinding {:?}", self.name),
            namespace => format!("RoleBinding {:?}", format!("{}/{namespace}", self.name)),
        };
        let subject = self.subjects.iter().find(|s| s.is(user)).map(Named::describe).unwrap_or_default();
        format!("{binding} of {} to {subject}", self.role)
    }
}

impl Named {
    fn new(subject: Subject, binding_namespace: &str) -> Option<Self> {
        match subject.kind.as_str() {
            "User" => Some(Named::User(subject.name)),
            "Group" => Some(Named::Group(subject.name)),
            "ServiceAccount" => {
                let own = subject.namespace.filter(|n| !n.is_empty());
                let namespace = own.unwrap_or_else(|| binding_namespace.to_owned());
                (!namespace.is_empty()).then_some(Named::ServiceAccount { namespace, name: subject.name })
            }
            _ => None,
        }
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Named::User(name) => user.name == *name,
            Named::Group(name) => user.in_group(name),
            Named::ServiceAccount { namespace, name } => {
                user.service_account() == Some((namespace.as_str(), name.as_str()))
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            Named::User(name) => format!("User {name:?}"),
            Named::Group(name) => format!("Group {name:?}"),
            Named::ServiceAccount { namespace, name } => {
                format!("ServiceAccount {:?}", format!("{name}/{namespace}"))
            }
        }
    }
}

impl From<&ApiRoleRef> for RoleRef {
    fn from(role: &ApiRoleRef) -> Self {
        match role.kind.as_str() {
            "Role" => RoleRef::Role(role.name.clone()),
            _ => RoleRef::ClusterRole(role.name.clone()),
        }
    }
}

impl std::fmt::Display for RoleRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RoleRef::Role(name) => write!(f, "Role {name:?}"),
            RoleRef::ClusterRole(name) => write!(f, "ClusterRole {name:?}"),
        }
    }
}
