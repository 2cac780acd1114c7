//! One write to the API, as a value that planners make, tests print and the executor carries out.

use serde_json::Value;

use crate::{Key, Kind, Object, Regarding};

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Create {
        kind: Kind,
        namespace: String,
        object: Value,
        told: Option<OutcomeEvents>,
    },
    /// Replaces the object, or one of its subresources (`status`, `finalize`).
    Update {
        target: Target,
        subresource: Option<&'static str>,
        object: Value,
    },
    /// A JSON merge patch.
    Patch {
        target: Target,
        subresource: Option<&'static str>,
        patch: Value,
    },
    /// Posts to a subresource of an object (`eviction`, `binding`).
    Post {
        target: Target,
        subresource: &'static str,
        body: Value,
    },
    Delete {
        target: Target,
        propagation: Option<Propagation>,
        grace_seconds: Option<i64>,
        told: Option<OutcomeEvents>,
    },
    /// Deletes every object of a kind in a namespace.
    DeleteCollection {
        kind: Kind,
        namespace: String,
    },
    /// Asks the API itself, not the cache, and ends the plan (to be retried) if any object is there.
    RequireNone {
        kind: Kind,
        namespace: String,
    },
    /// Likewise, if this object (with this UID, if one is given) is there.
    RequireAbsent {
        target: Target,
    },
}

/// The object an action is about. Its UID, if given, must still be this one.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub kind: Kind,
    pub key: Key,
    pub uid: Option<String>,
    /// Also demand that nobody changed the object.
    pub resource_version: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    pub fn name(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// The events that tell how a creation or deletion went; the object's name follows `done`, the error
/// follows `failed`.
#[derive(Debug, Clone, PartialEq)]
pub struct OutcomeEvents {
    pub regarding: Regarding,
    pub done: (&'static str, &'static str),
    pub failed: (&'static str, &'static str),
}

impl Target {
    pub fn of<K: Object>(object: &K) -> Self {
        Target {
            kind: Kind::of::<K>(),
            key: crate::key_of(object),
            uid: object.meta().uid.clone(),
            resource_version: None,
        }
    }

    /// Fails if the object has changed since it was seen.
    pub fn unchanged<K: Object>(object: &K) -> Self {
        Target { resource_version: object.meta().resource_version.clone(), ..Target::of(object) }
    }
}

impl Action {
    pub fn create<K: Object>(object: &K) -> Self {
        Action::Create {
            kind: Kind::of::<K>(),
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            object: to_value(object),
            told: None,
        }
    }

    /// Replaces the whole object, guarded by its resource version.
    pub fn update<K: Object>(object: &K) -> Self {
        Action::Update { target: Target::of(object), subresource: None, object: to_value(object) }
    }

    pub fn update_status<K: Object>(object: &K) -> Self {
        Action::Update { target: Target::of(object), subresource: Some("status"), object: to_value(object) }
    }

    /// A merge patch on the object as long as it has the same UID.
    pub fn patch<K: Object>(object: &K, patch: Value) -> Self {
        Action::Patch { target: Target::of(object), subresource: None, patch }
    }

    pub fn patch_status<K: Object>(object: &K, status: Value) -> Self {
        let patch = Value::from_iter([("status", status)]);
        Action::Patch { target: Target::of(object), subresource: Some("status"), patch }
    }

    pub fn delete<K: Object>(object: &K) -> Self {
        Action::Delete { target: Target::of(object), propagation: None, grace_seconds: None, told: None }
    }

    /// Tells by events how it went.
    #[must_use]
    pub fn telling(mut self, telling: OutcomeEvents) -> Self {
        if let Action::Create { told, .. } | Action::Delete { told, .. } = &mut self {
            *told = Some(telling);
        }
        self
    }

    #[must_use]
    pub fn with_propagation(mut self, policy: Propagation) -> Self {
        if let Action::Delete { propagation, .. } = &mut self {
            *propagation = Some(policy);
        }
        self
    }

    #[must_use]
    pub fn with_grace(mut self, seconds: i64) -> Self {
        if let Action::Delete { grace_seconds, .. } = &mut self {
            *grace_seconds = Some(seconds);
        }
        self
    }

    /// The kind and name it is about; empty for what the server names.
    pub fn subject(&self) -> (&Kind, Key) {
        match self {
            Action::Create { kind, namespace, object, .. } => {
                let name = object["metadata"]["name"].as_str().unwrap_or("");
                (kind, Key::new(namespace, name))
            }
            Action::Update { target, .. }
            | Action::Patch { target, .. }
            | Action::Post { target, .. }
            | Action::RequireAbsent { target }
            | Action::Delete { target, .. } => (&target.kind, target.key.clone()),
            Action::RequireNone { kind, namespace } | Action::DeleteCollection { kind, namespace } => {
                (kind, Key::new(namespace, ""))
            }
        }
    }
}

fn to_value<K: Object>(object: &K) -> Value {
    serde_json::to_value(object).expect("Kubernetes types have string keys and always serialise")
}
