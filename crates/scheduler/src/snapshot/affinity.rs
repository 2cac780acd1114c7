//! Node and pod affinity terms, parsed.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodAffinityTerm, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use minik8s_runtime::{Selector, placement};

use super::{NodeInfo, PodInfo};

/// Alternatives, one of which a node must meet in full.
#[derive(Debug, Clone, Default)]
pub struct NodeTerms(Vec<NodeSelectorTerm>);

impl NodeTerms {
    pub fn new(selector: &NodeSelector) -> Self {
        NodeTerms(selector.node_selector_terms.clone())
    }

    pub fn admits(&self, node: &NodeInfo) -> bool {
        placement::selects_node(&self.0, &node.name, node.node.metadata.labels.as_ref())
    }
}

pub(super) fn preferred_nodes(affinity: Option<&NodeAffinity>) -> Vec<(i32, NodeTerms)> {
    let preferred = affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let terms = preferred.into_iter().flatten();
    terms.map(|term| (term.weight, NodeTerms(vec![term.preference.clone()]))).collect()
}

/// Pods that a selector matches, in some namespaces, seen per domain of a topology.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    pub selector: Selector,
    pub topology_key: String,
    namespaces: Vec<String>,
    namespace_selector: Selector,
    /// Only pods of this controller, by UID.
    controller: Option<String>,
    /// Pods on their way out count too.
    counts_leaving: bool,
}

impl PodTerm {
    /// Pods to spread: those of one namespace that are to stay.
    pub(super) fn staying(selector: Selector, namespace: String, topology_key: String) -> Self {
        PodTerm {
            selector,
            topology_key,
            namespaces: vec![namespace],
            namespace_selector: Selector::nothing(),
            controller: None,
            counts_leaving: false,
        }
    }

    /// Pods to spread: those of one controller.
    pub(super) fn siblings(controller: &str, namespace: String, topology_key: &str) -> Self {
        let everything = Selector::new(Some(&LabelSelector::default()));
        let term = PodTerm::staying(everything, namespace, topology_key.to_owned());
        PodTerm { controller: Some(controller.to_owned()), ..term }
    }

    fn new(term: &PodAffinityTerm, pod: &Pod) -> Self {
        let labels = pod.metadata.labels.as_ref();
        let mut selector = Selector::new(term.label_selector.as_ref());
        for key in term.match_label_keys.iter().flatten() {
            if let Some(value) = labels.and_then(|labels| labels.get(key)) {
                selector = selector.and_equal(key, value);
            }
        }
        for key in term.mismatch_label_keys.iter().flatten() {
            if let Some(value) = labels.and_then(|labels| labels.get(key)) {
                selector = selector.and_not_equal(key, value);
            }
        }
        let mut namespaces = term.namespaces.clone().unwrap_or_default();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(pod.metadata.namespace.clone().unwrap_or_default());
        }
        PodTerm {
            selector,
            topology_key: term.topology_key.clone(),
            namespaces,
            namespace_selector: Selector::new(term.namespace_selector.as_ref()),
            controller: None,
            counts_leaving: true,
        }
    }

    /// Whether the pod counts, before its labels and namespace are looked at.
    pub(super) fn admits(&self, pod: &PodInfo) -> bool {
        let sibling = self.controller.is_none() || self.controller == pod.controller;
        sibling && (self.counts_leaving || !pod.is_leaving())
    }

    pub fn selects_namespace<'a>(
        &self,
        namespace: &str,
        labels: impl FnOnce() -> Option<&'a BTreeMap<String, String>>,
    ) -> bool {
        self.namespaces.iter().any(|n| n == namespace)
            || self.namespace_selector.is_everything()
            || (!self.namespace_selector.is_nothing() && self.namespace_selector.matches(labels()))
    }
}

/// A preference for (or against, when negative) being with some pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedPodTerm {
    pub weight: i64,
    pub term: Arc<PodTerm>,
}

#[derive(Default)]
pub(super) struct PodTerms {
    pub required: Vec<Arc<PodTerm>>,
    pub forbidden: Vec<Arc<PodTerm>>,
    pub preferred: Vec<Arc<WeightedPodTerm>>,
}

pub(super) fn pod_terms(affinity: Option<&Affinity>, pod: &Pod) -> PodTerms {
    let with = affinity.and_then(|a| a.pod_affinity.as_ref());
    let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let parse = |terms: Option<&Vec<PodAffinityTerm>>| -> Vec<Arc<PodTerm>> {
        terms.into_iter().flatten().map(|term| Arc::new(PodTerm::new(term, pod))).collect()
    };
    let weigh = |terms: Option<&Vec<WeightedPodAffinityTerm>>, sign: i64| -> Vec<Arc<WeightedPodTerm>> {
        let weighted = terms.into_iter().flatten().map(|weighted| WeightedPodTerm {
            weight: sign * i64::from(weighted.weight),
            term: Arc::new(PodTerm::new(&weighted.pod_affinity_term, pod)),
        });
        weighted.map(Arc::new).collect()
    };
    let preferred_with = with.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let preferred_apart = apart.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let mut preferred = weigh(preferred_with, 1);
    preferred.extend(weigh(preferred_apart, -1));
    PodTerms {
        required: parse(with.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())),
        forbidden: parse(apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())),
        preferred,
    }
}
