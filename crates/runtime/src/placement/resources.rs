//! Amounts of resources, as plain numbers for speed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use minik8s_meta::Quantity as Amount;

/// CPU in thousandths, bytes, and whatever else nodes offer (`nvidia.com/gpu`, `hugepages-2Mi`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    pub cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// Sorted by name; mostly empty.
    pub others: Vec<(Box<str>, i64)>,
}

impl Resources {
    pub fn of_map(map: Option<&BTreeMap<String, Quantity>>) -> Self {
        let mut resources = Resources::default();
        for (name, quantity) in map.into_iter().flatten() {
            // What cannot be parsed counts as nothing: the API server refused it long before.
            let amount = Amount::try_from(quantity).unwrap_or_default();
            match name.as_str() {
                "cpu" => resources.cpu = amount.milli(),
                "memory" => resources.memory = amount.value(),
                "ephemeral-storage" => resources.ephemeral_storage = amount.value(),
                "pods" => {}
                other => resources.others.push((other.into(), amount.value())),
            }
        }
        resources
    }

    pub fn other(&self, name: &str) -> i64 {
        self.others.iter().find(|(n, _)| &**n == name).map_or(0, |(_, amount)| *amount)
    }

    pub fn add(&mut self, more: &Resources) {
        self.zip(more, i64::saturating_add);
    }

    pub fn subtract(&mut self, less: &Resources) {
        self.zip(less, i64::saturating_sub);
    }

    /// The larger of each.
    pub fn raise_to(&mut self, other: &Resources) {
        self.zip(other, i64::max);
    }

    fn zip(&mut self, other: &Resources, combine: impl Fn(i64, i64) -> i64) {
        self.cpu = combine(self.cpu, other.cpu);
        self.memory = combine(self.memory, other.memory);
        self.ephemeral_storage = combine(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.others {
            match self.others.binary_search_by(|(n, _)| n.cmp(name)) {
                Ok(i) => self.others[i].1 = combine(self.others[i].1, *amount),
                Err(i) => self.others.insert(i, (name.clone(), combine(0, *amount))),
            }
        }
    }
}

/// What a pod asks for: its containers and sidecars together, or its hungriest moment of initialisation,
/// whichever is more; amounts given for the pod as a whole replace those; plus the runtime's overhead.
pub fn requested_by(spec: &PodSpec) -> Resources {
    let mut total = Resources::default();
    for container in &spec.containers {
        total.add(&requests(container));
    }
    let mut sidecars = Resources::default();
    let mut initialising = Resources::default();
    for container in spec.init_containers.iter().flatten() {
        let request = requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add(&request);
            initialising.raise_to(&sidecars);
        } else {
            let mut moment = sidecars.clone();
            moment.add(&request);
            initialising.raise_to(&moment);
        }
    }
    total.add(&sidecars);
    total.raise_to(&initialising);
    if let Some(whole) = &spec.resources {
        // Requests were not always written into pods that say limits alone: the limit is what no container asks for.
        let mut map = whole.limits.clone().unwrap_or_default();
        map.retain(|name, _| !is_asked_for(spec, name));
        map.extend(whole.requests.clone().unwrap_or_default());
        let whole = Resources::of_map(Some(&map));
        for (field, value) in [(&mut total.cpu, whole.cpu), (&mut total.memory, whole.memory)] {
            if value > 0 {
                *field = value;
            }
        }
    }
    total.add(&Resources::of_map(spec.overhead.as_ref()));
    total
}

/// Whether any container asks for it.
fn is_asked_for(spec: &PodSpec, resource: &str) -> bool {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut lists = containers
        .filter_map(|container| container.resources.as_ref())
        .flat_map(|own| [&own.requests, &own.limits].into_iter().flatten());
    lists.any(|list| list.contains_key(resource))
}

fn requests(container: &Container) -> Resources {
    container.resources.as_ref().map(effective).unwrap_or_default()
}

/// A limit without a request counts as the request.
fn effective(requirements: &ResourceRequirements) -> Resources {
    let mut map = requirements.limits.clone().unwrap_or_default();
    map.extend(requirements.requests.clone().unwrap_or_default());
    Resources::of_map(Some(&map))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, cpu: i64, memory: i64) {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let total = requested_by(&spec);
        assert_eq!((total.cpu, total.memory), (cpu, memory));
    }

    fn container(cpu: &str, memory: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    #[test]
    fn what_a_pod_asks_for() {
        let sidecar = |cpu: &str| {
            let mut container = container(cpu, "0");
            container["restartPolicy"] = json!("Always");
            container
        };
        check(json!({"containers": []}), 0, 0);
        check(json!({"containers": [container("100m", "1Ki"), container("1", "1Ki")]}), 1100, 2048);
        let limits = json!({"name": "c", "resources": {"limits": {"cpu": "2"}}});
        check(json!({"containers": [limits]}), 2000, 0);
        let init = [container("3", "0"), container("1", "0")];
        check(json!({"containers": [container("1", "0")], "initContainers": init}), 3000, 0);
        let init = [sidecar("1"), container("3", "0")];
        check(json!({"containers": [container("1", "0")], "initContainers": init}), 4000, 0);
        let init = [container("3", "0"), sidecar("1")];
        check(json!({"containers": [container("1", "0")], "initContainers": init}), 3000, 0);
        let overhead = json!({"cpu": "50m"});
        check(json!({"containers": [container("1", "0")], "overhead": overhead}), 1050, 0);
        let whole = json!({"requests": {"cpu": "5"}});
        check(json!({"containers": [container("1", "1Ki")], "resources": whole}), 5000, 1024);
        let whole = json!({"limits": {"cpu": "5", "memory": "1Mi"}});
        check(json!({"containers": [container("1", "1Ki")], "resources": whole}), 1000, 1024);
        check(json!({"containers": [{"name": "c"}], "resources": whole}), 5000, 1 << 20);
        let whole = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "5", "memory": "1Mi"}});
        check(json!({"containers": [{"name": "c"}], "resources": whole}), 2000, 1 << 20);
    }
}
