//! `spec.resources` of a Pod that says what it is limited to as a whole, but not what it asks for: whatever its containers
//! ask for together, or else the limit. Who counts requests finds them in the pod.
//!
//! Only a Pod gets them, no template. Pods that were stored without them never do: those who count take the same for them.

use serde_json::{Map, Value};

use crate::pod_spec::containers::{INIT, MAIN, is_sidecar, of};
use crate::{Quantity, fill};

pub(super) fn fill_in(spec: &mut Value) {
    let defaults = defaults(spec);
    if defaults.is_empty() {
        return;
    }
    let requests = spec.get_mut("resources").and_then(|resources| fill::map(resources, "requests"));
    let Some(requests) = requests else { return };
    for (name, amount) in defaults {
        requests.entry(name).or_insert(amount);
    }
}

/// Takes away again what the stored pod never had: its resources may not change, nor its class.
pub(crate) fn keep_missing_requests(spec: &mut Value, old: &Value) {
    let stored = &old["resources"]["requests"];
    let missing: Vec<String> =
        defaults(old).into_iter().map(|(name, _)| name).filter(|name| stored[name].is_null()).collect();
    if missing.is_empty() {
        return;
    }
    let defaults = defaults(spec);
    let Some(resources) = spec.get_mut("resources") else { return };
    let Some(requests) = resources.get_mut("requests").and_then(Value::as_object_mut) else { return };
    requests.retain(|name, amount| !missing.contains(name) || defaults.get(name) != Some(&*amount));
    if requests.is_empty() && stored.as_object().is_none_or(Map::is_empty) {
        fill::restore(resources, &old["resources"], "requests");
    }
}

/// By resource, whether the pod says a request or not; none without limits of the whole pod.
fn defaults(spec: &Value) -> Map<String, Value> {
    let mut defaults = Map::new();
    let Some(limits) = spec["resources"]["limits"].as_object().filter(|limits| !limits.is_empty()) else {
        return defaults;
    };
    for name in ["cpu", "memory"] {
        if let Some(sum) = asked_by_containers(spec, name) {
            // A sum may be more than a quantity can say.
            let sum = sum.min(Quantity::new(i64::MAX, sum.format()));
            defaults.insert(name.to_owned(), sum.to_string().into());
        }
    }
    for (name, limit) in limits.iter().filter(|(_, limit)| Quantity::from_json(limit).is_ok()) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            defaults.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
    defaults
}

/// The most at any time: init containers run one after the other beside the sidecars before them, main containers all at
/// once beside all sidecars. None where no container asks for it.
fn asked_by_containers(spec: &Value, name: &str) -> Option<Quantity> {
    let request = |container: &Value| Quantity::from_json(&container["resources"]["requests"][name]).ok();
    let mut together: Option<Quantity> = None;
    for container in of(spec, MAIN) {
        together = plus(together, request(container));
    }
    let (mut sidecars, mut most): (Option<Quantity>, Option<Quantity>) = (None, None);
    for container in of(spec, INIT) {
        let moment = plus(sidecars, request(container));
        most = most.max(moment);
        if is_sidecar(container) {
            sidecars = moment;
        }
    }
    plus(together, sidecars).max(most)
}

fn plus(sum: Option<Quantity>, more: Option<Quantity>) -> Option<Quantity> {
    sum.into_iter().chain(more).reduce(|sum, more| sum + more)
}
