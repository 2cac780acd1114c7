//! What a node may do: read only what its own pods use, and write only about itself.
//!
//! A stolen node must not open the whole cluster. (The certificates of Ingresses are open to every node, whose
//! router must show them: Secrets that an Ingress names, and of those only what is of the type for certificates.) Secrets, ConfigMaps, claims, volumes, service accounts and
//! pods are checked one by one against a [`NodeGraph`] of who uses what; everything else against the rules of
//! the role `system:node`. The request's body is not seen here: that a node writes only its own Node, Lease
//! and mirror pods on create is for admission.

mod graph;
mod references;
#[cfg(test)]
mod tests;

pub use graph::{NodeGraph, WatchedKind};
pub use references::REGISTRY_HOST;

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
                ("", "secrets") => self.secret(node, wanted),
                ("", "configmaps") => self.read(node, Kind::ConfigMap, wanted),
                ("", "persistentvolumeclaims") => self.claim(node, wanted),
                ("", "persistentvolumes") => self.volume(node, wanted),
                ("", "serviceaccounts") => self.service_account(node, wanted),
                ("", "nodes") => own_node(node, wanted),
                ("", "pods") => self.pod(node, wanted),
                ("storage.k8s.io", "volumeattachments") => self.get(node, Kind::Attachment, wanted),
                ("storage.k8s.io", "csinodes") => own_csi_node(node, wanted),
                ("storage.k8s.io", "csistoragecapacities") => own_capacity(node, wanted),
                ("coordination.k8s.io", "leases") => own_lease(node, wanted),
                ("certificates.k8s.io", "podcertificaterequests") => own_certificate(node, wanted),
                ("minik8s.io", "invocations") => invocation(node, wanted),
                ("minik8s.io", "triggers") => event(wanted),
                ("minik8s.io", "imagerepositories") => self.get(node, Kind::Repository, wanted),
                (
                    "internal.minik8s.io",
                    "functiondemands" | "gatewayacks" | "meshacks" | "meshprogresses",
                ) => own_demand(node, wanted),
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

    /// Whoever may write an Ingress can name any Secret there. So a node sees such a Secret only through a selector for its
    /// type, which keeps all others from it, also those that come later under the same name: types never change.
    fn secret(&self, node: &str, wanted: &Attributes<'_>) -> Answer {
        let is_selected = matches!(wanted.verb, "list" | "watch") && selects(wanted, "type", CERTIFICATE);
        let is_plain = wanted.subresource.is_empty() && !wanted.name.is_empty();
        if is_selected && is_plain && self.graph.is_certificate(wanted.namespace, wanted.name) {
            return Ok(());
        }
        self.read(node, Kind::Secret, wanted)
    }

    fn get(&self, node: &str, kind: Kind, wanted: &Attributes<'_>) -> Answer {
        allow_if(wanted.verb == "get", "can only get individual resources of this type")?;
        allow_if(wanted.subresource.is_empty(), "cannot get subresource")?;
        self.related(node, kind, wanted)
    }

    /// Beyond upstream: a node follows the volumes whose images it keeps, and says when an image is gone. That it writes
    /// nothing else is for admission.
    fn volume(&self, node: &str, wanted: &Attributes<'_>) -> Answer {
        match (wanted.subresource, wanted.verb) {
            ("", "list" | "watch") if selects(wanted, VOLUME_KEEPER, node) => Ok(()),
            ("", "get" | "patch") if self.graph.keeps(node, wanted.name) => Ok(()),
            _ => self.get(node, Kind::Volume, wanted),
        }
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

/// The type of Secrets with a certificate and its key.
const CERTIFICATE: &str = "kubernetes.io/tls";

/// The field of a volume that names the node that keeps its image.
const VOLUME_KEEPER: &str = "spec.csi.volumeAttributes.node";

/// What the CSIStorageCapacity of a node is called, before the node's name.
const LOCAL_CAPACITY: &str = "local.minik8s.io.";

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

/// For which pods a node asks is for admission; what it may see is what it asked for itself.
fn own_certificate(node: &str, wanted: &Attributes<'_>) -> Answer {
    match (wanted.subresource, wanted.verb) {
        ("", "create") => Ok(()),
        ("", "list" | "watch") => allow_if(
            selects(wanted, "spec.nodeName", node),
            "can only list/watch podcertificaterequests with spec.nodeName field selector",
        ),
        _ => Err("can only create, list and watch podcertificaterequests".to_owned()),
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

/// A router takes calls that nobody waits for, follows those that are its own, and says how they ended.
fn invocation(node: &str, wanted: &Attributes<'_>) -> Answer {
    let may = match (wanted.subresource, wanted.verb) {
        ("", "create") | ("status", "update" | "patch") => true,
        ("", "list" | "watch") => selects(wanted, "spec.node", node),
        _ => false,
    };
    allow_if(may, "can only take invocations, follow its own and write their status")
}

/// A router passes on events that reach it; the API server looks at their signatures itself.
fn event(wanted: &Attributes<'_>) -> Answer {
    allow_if((wanted.subresource, wanted.verb) == ("events", "create"), "can only pass on events to triggers")
}

/// FUNCTION.NODE: what one node's router says of its requests is no other node's to change.
fn own_demand(node: &str, wanted: &Attributes<'_>) -> Answer {
    allow_if(
        matches!(wanted.verb, "get" | "create" | "update" | "delete"),
        "can only write its own demands and acknowledgements",
    )?;
    allow_if(wanted.subresource.is_empty(), "demands have no subresources")?;
    let own = wanted.name.split_once('.').is_some_and(|(_, rest)| rest == node);
    allow_if(own, "can only write what is called OBJECT.NODE after this node")
}

fn own_csi_node(node: &str, wanted: &Attributes<'_>) -> Answer {
    allow_if(is_single_object(wanted.verb), "can only get, create, update, patch, or delete a CSINode")?;
    allow_if(wanted.subresource.is_empty(), "cannot authorize CSINode subresources")?;
    allow_if(
        wanted.verb == "create" || wanted.name == node,
        "can only access CSINode with the same name as the requesting node",
    )
}

/// Beyond upstream: a node says how much room it has for volumes of the class `local`.
fn own_capacity(node: &str, wanted: &Attributes<'_>) -> Answer {
    allow_if(matches!(wanted.verb, "get" | "create" | "patch"), "can only get, create and patch a capacity")?;
    allow_if(wanted.subresource.is_empty(), "cannot authorize CSIStorageCapacity subresources")?;
    allow_if(wanted.namespace == "kube-system", "can only access capacities in kube-system")?;
    let own = wanted.name.strip_prefix(LOCAL_CAPACITY).is_some_and(|rest| rest == node);
    allow_if(wanted.verb == "create" || own, "can only access its own capacity of the class local")
}
