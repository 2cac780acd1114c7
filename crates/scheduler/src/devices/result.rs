//! From chosen devices to what a claim's status says.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceAllocationResult, DeviceRequestAllocationResult,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::allocate::Choice;
use super::pool::Reach;
use super::request::{Alternative, Wanted};

/// One for each claim, in their order.
pub fn allocations(wanted: &[Wanted], choices: &[Choice], node: &str) -> Vec<AllocationResult> {
    let of_claim = |(index, wanted): (usize, &Wanted)| {
        let chosen: Vec<&Choice> = choices.iter().filter(|choice| choice.claim == index).collect();
        let results = chosen.iter().map(|choice| result(alternative(wanted, choice), choice)).collect();
        AllocationResult {
            allocation_timestamp: None,
            devices: Some(DeviceAllocationResult {
                config: Some(config(wanted, &chosen)).filter(|config| !config.is_empty()),
                results: Some(results),
            }),
            node_selector: node_selector(&chosen, node),
        }
    };
    wanted.iter().enumerate().map(of_claim).collect()
}

fn alternative<'a>(wanted: &'a Wanted, choice: &Choice) -> &'a Alternative {
    &wanted.requests[choice.request].alternatives[choice.alternative]
}

fn result(asked: &Alternative, choice: &Choice) -> DeviceRequestAllocationResult {
    let id = &choice.device.id;
    let consumed = choice.consumed.as_ref().map(|consumed| {
        consumed.iter().map(|(name, amount)| (name.clone(), WireQuantity(amount.to_string()))).collect()
    });
    DeviceRequestAllocationResult {
        request: asked.name.clone(),
        driver: id.driver.clone(),
        pool: id.pool.clone(),
        device: id.device.clone(),
        admin_access: asked.admin.then_some(true),
        tolerations: Some(asked.tolerations.clone()).filter(|tolerations| !tolerations.is_empty()),
        consumed_capacity: consumed,
        skip_node_operations: choice.device.skip_node_operations.clone(),
        binding_conditions: choice.device.api.binding_conditions.clone(),
        binding_failure_conditions: choice.device.api.binding_failure_conditions.clone(),
        ..DeviceRequestAllocationResult::default()
    }
}

/// What the classes say for drivers comes before what the claim says: the later word counts.
fn config(wanted: &Wanted, chosen: &[&Choice]) -> Vec<DeviceAllocationConfiguration> {
    let mut all = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for asked in chosen.iter().map(|choice| alternative(wanted, choice)) {
        if known.contains(&asked.name.as_str()) {
            continue;
        }
        known.push(&asked.name);
        let of_class = asked.class.spec.iter().flat_map(|spec| spec.config.iter().flatten());
        all.extend(of_class.map(|config| DeviceAllocationConfiguration {
            opaque: config.opaque.clone(),
            requests: Some(vec![asked.name.clone()]),
            source: "FromClass".to_owned(),
        }));
    }
    let devices = wanted.claim.spec.iter().flat_map(|spec| spec.devices.iter());
    let own = devices.flat_map(|devices| devices.config.iter().flatten());
    all.extend(own.map(|config| DeviceAllocationConfiguration {
        opaque: config.opaque.clone(),
        requests: config.requests.clone(),
        source: "FromClaim".to_owned(),
    }));
    all
}

/// Where all of the devices can be used; None: anywhere.
fn node_selector(chosen: &[&Choice], node: &str) -> Option<NodeSelector> {
    let is_local = |choice: &&&Choice| {
        matches!(choice.device.reach, Reach::Node(_)) || choice.device.api.binds_to_node == Some(true)
    };
    if chosen.iter().any(|choice| is_local(&choice)) {
        let is_node = NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        };
        let term = NodeSelectorTerm { match_fields: Some(vec![is_node]), ..NodeSelectorTerm::default() };
        return Some(NodeSelector { node_selector_terms: vec![term] });
    }
    let mut term = NodeSelectorTerm::default();
    for choice in chosen {
        // A slice's selector has one term.
        let Reach::Selected(selector) = &choice.device.reach else { continue };
        for one in selector.node_selector_terms.iter().take(1) {
            add(&mut term.match_expressions, one.match_expressions.as_ref());
            add(&mut term.match_fields, one.match_fields.as_ref());
        }
    }
    let is_empty = term.match_expressions.is_none() && term.match_fields.is_none();
    (!is_empty).then(|| NodeSelector { node_selector_terms: vec![term] })
}

fn add(all: &mut Option<Vec<NodeSelectorRequirement>>, more: Option<&Vec<NodeSelectorRequirement>>) {
    for requirement in more.into_iter().flatten() {
        let known = all.get_or_insert_default();
        if !known.contains(requirement) {
            known.push(requirement.clone());
        }
    }
}
