//! What a node may do: read only what its own pods use, and write only about itself.
//!
//! A stolen node must not open the whole cluster. (The certificates of Ingresses are open to every node, whose
//! router must show them.) Secrets, ConfigMaps, claims, volumes, service accounts and
//! pods are checked one by one against a [`NodeGraph`] of who uses what; everything else against the rules of
//! the role `system:node`. The request's body is not seen here: that a node writes only its own Node, Lease
//! and mirror pods on create is for admission.

mod graph;
mod references;
#[cfg(test)]
mod tests;

pub use graph::{NodeGraph, WatchedKind};

use self::graph::Kind;
use crate::rbac::{Rule, bootstrap};
use crate::{Attributes, Decision, User};

/// Whether a pod names secrets, configuration or claims.
pub fn names_others(pod: &serde_json::Value) -> bool {
    !references::named_by_pod(pod).is_empty()
}

/// Answers only for users that are nodes; has no opinion on others.
pub struct NodeAuthorizer {
    /// Fed by the API server from its watches.
    pub graph: NodeGraph,
    rules: Vec<Rule>,
}

impl Default for NodeAuthorizer {
    fn default() -> Self {
        NodeAuthorizer { graph: NodeGraph::default(), rules: bootstrap::node_rules() }
    }
}

impl NodeAuthorizer {
    pub fn allows(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        let Some(node) = user.node_name() else { return Decision::no_opinion("") };
        if node.is_empty() {
            return Decision::no_opinion(format!("unknown node for user {:?}", user.name));
        }
        let answer = if wanted.path.is_some() {
            self.by_rules(wanted)
        } else {
            match (wanted.api_group, wanted.resource) {
                ("", "secrets") => self.read(node, Kind::Secret, wanted),
                ("", "configmaps") => self.read(node, Kind::ConfigMap, wanted),
                ("", "persistentvolumeclaims") => self.claim(node, wanted),
                ("", "persistentvolumes") => self.get(node, Kind::Volume, wanted),
                ("", "serviceaccounts") => self.service_account(node, wanted),
                ("", "nodes") => own_node(node, wanted),
                ("", "pods") => self.pod(node, wanted),
                ("storage.k8s.io", "volumeattachments") => self.get(node, Kind::Attachment, wanted),
                ("storage.k8s.io", "csinodes") => own_csi_node(node, wanted),
                ("coordination.k8s.io", "leases") => own_lease(node, wanted),
                ("resource.k8s.io", "resourceclaims") => self.get(node, Kind::ResourceClaim, wanted),
                ("resource.k8s.io", "resourceslices") => self.slice(node, wanted),
                _ => self.by_rules(wanted),
            }
        };
        match answer {
            Ok(()) => Decision::allow(""),
            Err(reason) => Decision::no_opinion(reason),
        }
    }

    fn by_rules(&self, wanted: &Attributes<'_>) -> Answer {
        allow_if(self.rules.iter().any(|rule| rule.allows(wanted)), "")
    }

    fn related(&self, node: &str, kind: Kind, wanted: &Attributes<'_>) -> Answer {
        if wanted.name.is_empty() {
            return Err("No Object name found".to_owned());
        }
        if self.graph.relates(node, kind, wanted.namespace, wanted.name) {
            return Ok(());
        }
        Err(format!("no relationship found between node '{node}' and this object"))
    }

    fn read(&self, node: &str, kind: Kind, wanted: &Attributes<'_>) -> Answer {
        allow_if(is_read(wanted.verb), "can only read resources of this type")?;
        allow_if(wanted.subresource.is_empty(), "cannot read subresource")?;
        allow_if(!wanted.namespace.is_empty(), "can only read namespaced object of this type")?;
        self.related(node, kind, wanted)
    }

    fn get(&self, node: &str, kind: Kind, wanted: &Attributes<'_>) -> Answer {
        allow_if(wanted.verb == "get", "can only get individual resources of this type")?;
        allow_if(wanted.subresource.is_empty(), "cannot get subresource")?;
        self.related(node, kind, wanted)
    }

    fn claim(&self, node: &str, wanted: &Attributes<'_>) -> Answer {
        if wanted.subresource != "status" {
            return self.get(node, Kind::Claim, wanted);
        }
        allow_if(matches!(wanted.verb, "update" | "patch"), "can only update or patch the status")?;
        self.related(node, Kind::Claim, wanted)
    }

    fn service_account(&self, node: &str, wanted: &Attributes<'_>) -> Answer {
        match (wanted.verb, wanted.subresource) {
            ("get", "") | ("create", "token") => self.related(node, Kind::ServiceAccount, wanted),
            _ => Err("can only get individual service accounts and create tokens for them".to_owned()),
        }
    }

    fn pod(&self, node: &str, wanted: &Attributes<'_>) -> Answer {
        match (wanted.subresource, wanted.verb) {
            ("", "get") => self.related(node, Kind::Pod, wanted),
            ("", "list" | "watch") if selects(wanted, "spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if !wanted.name.is_empty() => self.related(node, Kind::Pod, wanted),
            ("", "list" | "watch") => {
                Err("can only list/watch pods with spec.nodeName field selector".to_owned())
            }
            // Mirror pods; admission keeps them to this node.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(String::new()),
        }
    }

    fn slice(&self, node: &str, wanted: &Attributes<'_>) -> Answer {
        allow_if(wanted.subresource.is_empty(), "cannot authorize ResourceSlice subresources")?;
        match wanted.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(node, Kind::Slice, wanted),
            "list" | "watch" | "deletecollection" => allow_if(
                selects(wanted, "spec.nodeName", node) || selects(wanted, "nodeName", node),
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => Err(String::new()),
        }
    }
}

/// The reason, where the answer is no.
type Answer = Result<(), String>;

fn allow_if(condition: bool, otherwise: &str) -> Answer {
    if condition { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn is_read(verb: &str) -> bool {
    matches!(verb, "get" | "list" | "watch")
}

fn is_single_object(verb: &str) -> bool {
    matches!(verb, "get" | "create" | "update" | "patch" | "delete")
}

fn selects(wanted: &Attributes<'_>, field: &str, value: &str) -> bool {
    wanted.field_equals.contains(&(field, value))
}

fn own_node(node: &str, wanted: &Attributes<'_>) -> Answer {
    match (wanted.subresource, wanted.verb) {
        // Names are compared, not looked up: a kubelet asks for its Node before it has created it.
        ("", verb) if is_read(verb) => match wanted.name {
            name if name == node => Ok(()),
            "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object")),
            name => Err(format!("node '{node}' cannot read '{name}', only its own Node object")),
        },
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => {
            allow_if(wanted.name.is_empty() || wanted.name == node, "can only write its own Node object")
        }
        // Beyond upstream: a machine that leaves takes its Node with it.
        ("", "delete") => allow_if(wanted.name == node, "can only delete its own Node object"),
        _ => Err(String::new()),
    }
}

fn own_lease(node: &str, wanted: &Attributes<'_>) -> Answer {
    allow_if(is_single_object(wanted.verb), "can only get, create, update, patch, or delete a node lease")?;
    allow_if(
        wanted.namespace == "kube-node-lease",
        "can only access leases in the \"kube-node-lease\" system namespace",
    )?;
    allow_if(
        wanted.verb == "create" || wanted.name == node,
        "can only access node lease with the same name as the requesting node",
    )
}

fn own_csi_node(node: &str, wanted: &Attributes<'_>) -> Answer {
    allow_if(is_single_object(wanted.verb), "can only get, create, update, patch, or delete a CSINode")?;
    allow_if(wanted.subresource.is_empty(), "cannot authorize CSINode subresources")?;
    allow_if(
        wanted.verb == "create" || wanted.name == node,
        "can only access CSINode with the same name as the requesting node",
    )
}
