//! Whether a volume does for a claim, and if not, why not. Pure.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Node, ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use minik8s_meta::Quantity;
use minik8s_runtime::{Selector, placement};

/// Why a volume does not do. In the order in which they are looked at: the first is the plainest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    Deleted,
    Taken(String),
    Class { offered: String, wanted: String },
    AttributesClass { offered: String, wanted: String },
    Mode { offered: String },
    AccessModes { offered: String },
    TooSmall { offered: String },
    Labels,
    Node,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::Deleted => f.write_str("it is being deleted"),
            Misfit::Taken(claim) => write!(f, "it is kept for the claim {claim}"),
            Misfit::Class { offered, wanted } => {
                write!(f, "its class is {offered:?}, the claim's is {wanted:?}")
            }
            Misfit::AttributesClass { offered, wanted } => {
                write!(f, "its volumeAttributesClassName is {offered:?}, the claim's is {wanted:?}")
            }
            Misfit::Mode { offered } => write!(f, "its volumeMode is {offered}"),
            Misfit::AccessModes { offered } => write!(f, "it offers {offered} only"),
            Misfit::TooSmall { offered } => write!(f, "it has {offered} only"),
            Misfit::Labels => f.write_str("the claim's selector does not match its labels"),
            Misfit::Node => f.write_str("the node of the claim's pod cannot reach it"),
        }
    }
}

/// What a claim wants, read once for many volumes.
pub struct Wanted<'a> {
    claim: &'a PersistentVolumeClaim,
    is_named: bool,
    is_kept: bool,
    selector: Option<Selector>,
    size: Quantity,
    /// Where the volume must be reachable from.
    node: Option<&'a Node>,
}

impl<'a> Wanted<'a> {
    pub fn new(claim: &'a PersistentVolumeClaim, node: Option<&'a Node>) -> Self {
        let spec = claim.spec.as_ref();
        let selector = spec.and_then(|spec| spec.selector.as_ref());
        Wanted {
            claim,
            is_named: false,
            is_kept: false,
            selector: selector.map(|selector| Selector::new(Some(selector))),
            size: requested(claim),
            node,
        }
    }

    /// Also for a volume that the user has named: a selector and nodes choose among volumes, and have nothing to say then.
    /// Attributes can be changed afterwards.
    pub fn named(claim: &'a PersistentVolumeClaim) -> Self {
        Wanted { claim, is_named: true, is_kept: false, selector: None, size: requested(claim), node: None }
    }

    /// For a volume that names the claim: whoever made it has chosen, whatever its class.
    pub fn kept(claim: &'a PersistentVolumeClaim) -> Self {
        Wanted { is_kept: true, ..Wanted::named(claim) }
    }

    pub fn misfit(&self, volume: &PersistentVolume) -> Option<Misfit> {
        let (spec, claim) = (volume.spec.as_ref()?, self.claim.spec.as_ref()?);
        if volume.metadata.deletion_timestamp.is_some() {
            return Some(Misfit::Deleted);
        }
        if let Some(kept) = spec.claim_ref.as_ref().filter(|kept| !is_for(kept, self.claim)) {
            let name = |part: &Option<String>| part.clone().unwrap_or_default();
            return Some(Misfit::Taken(format!("{}/{}", name(&kept.namespace), name(&kept.name))));
        }
        let (offered, wanted) = (class_name(volume), claim.storage_class_name.as_deref().unwrap_or(""));
        if offered != wanted && !self.is_kept {
            return Some(Misfit::Class { offered: offered.to_owned(), wanted: wanted.to_owned() });
        }
        let (offered, wanted) = (
            spec.volume_attributes_class_name.as_deref().unwrap_or(""),
            attributes_class(self.claim).unwrap_or(""),
        );
        if offered != wanted && !self.is_named {
            return Some(Misfit::AttributesClass { offered: offered.to_owned(), wanted: wanted.to_owned() });
        }
        let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
        if mode(&spec.volume_mode) != mode(&claim.volume_mode) {
            return Some(Misfit::Mode { offered: mode(&spec.volume_mode) });
        }
        let offered = spec.access_modes.as_deref().unwrap_or_default();
        if !claim.access_modes.iter().flatten().all(|mode| offered.contains(mode)) {
            return Some(Misfit::AccessModes { offered: offered.join(", ") });
        }
        if capacity(volume) < self.size {
            return Some(Misfit::TooSmall { offered: capacity(volume).to_string() });
        }
        if self.selector.as_ref().is_some_and(|s| !s.matches(volume.metadata.labels.as_ref())) {
            return Some(Misfit::Labels);
        }
        self.node.is_some_and(|node| !reaches(volume, node)).then_some(Misfit::Node)
    }
}

/// Whether a volume's reference means this claim: by UID where it has one.
pub fn is_for(reference: &ObjectReference, claim: &PersistentVolumeClaim) -> bool {
    reference.namespace == claim.metadata.namespace
        && reference.name == claim.metadata.name
        && reference.uid.as_ref().is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref())
}

/// Whether a node can reach a volume.
pub fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    let name = node.metadata.name.as_deref().unwrap_or("");
    required.is_none_or(|terms| {
        placement::selects_node(&terms.node_selector_terms, name, node.metadata.labels.as_ref())
    })
}

/// The VolumeAttributesClass that a claim wants its volume to have.
pub fn attributes_class(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_attributes_class_name.as_deref().filter(|name| !name.is_empty())
}

pub fn class_name(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or("")
}

pub fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    storage(resources.and_then(|resources| resources.requests.as_ref()))
}

pub fn capacity(volume: &PersistentVolume) -> Quantity {
    storage(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()))
}

pub fn storage(amounts: Option<&BTreeMap<String, Amount>>) -> Quantity {
    let amount = amounts.and_then(|amounts| amounts.get("storage"));
    amount.and_then(|amount| Quantity::try_from(amount).ok()).unwrap_or(Quantity::ZERO)
}
