//! Claims in, allocations out: the search with real slices, classes and claims, on one node or two.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::*;

struct World {
    devices: Devices,
    nodes: Vec<NodeInfo>,
}

/// Four GPUs on each node: 0 and 1 are near memory node 0, 2 and 3 near 1; the last one is of another model.
fn world() -> World {
    let mut devices = Devices::default();
    for node in ["a", "b"] {
        let gpus: Vec<Value> = (0..4)
            .map(|at| {
                let model = if at == 3 { "a100" } else { "v100" };
                json!({"name": format!("gpu-{at}"),
                    "attributes": {"model": {"string": model}, "numa": {"int": at / 2}, "index": {"int": at}},
                    "capacity": {"memory": {"value": "32Gi"}}})
            })
            .collect();
        slice(&mut devices, node, json!({"nodeName": node, "devices": gpus}));
    }
    class(
        &mut devices,
        "gpu",
        json!({"selectors": [{"cel": {"expression": "device.driver == 'gpu.example'"}}]}),
    );
    let nodes = ["a", "b"].map(|name| {
        let node = json!({"metadata": {"name": name, "labels": {"zone": name}}, "status": {}});
        let node: Node = serde_json::from_value(node).unwrap();
        NodeInfo::new(0, Arc::new(node))
    });
    World { devices, nodes: nodes.into() }
}

fn slice(devices: &mut Devices, name: &str, spec: Value) {
    let mut all =
        json!({"driver": "gpu.example", "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let slice = json!({"metadata": {"name": format!("{name}-slice")}, "spec": all});
    devices.set_slice(&serde_json::from_value(slice).unwrap());
}

fn class(devices: &mut Devices, name: &str, spec: Value) {
    let class = json!({"metadata": {"name": name}, "spec": spec});
    devices.set_class(Arc::new(serde_json::from_value(class).unwrap()));
}

fn claim(name: &str, devices: Value) -> Arc<ResourceClaim> {
    let metadata = json!({"name": name, "namespace": "ns", "uid": name});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {"devices": devices}})).unwrap())
}

fn exactly(more: Value) -> Value {
    let mut exactly = json!({"deviceClassName": "gpu"});
    exactly.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"requests": [{"name": "r", "exactly": exactly}]})
}

fn selected(expression: &str) -> Value {
    exactly(json!({"selectors": [{"cel": {"expression": expression}}]}))
}

impl World {
    fn try_on(&self, node: usize, claims: &[Arc<ResourceClaim>]) -> Result<Vec<AllocationResult>, String> {
        let states: Vec<_> =
            claims.iter().map(|one| (String::new(), ClaimState::Unallocated(one.clone()))).collect();
        let wanted = self.devices.wanted(&states)?;
        let found = self.devices.allocate(&wanted, &self.nodes[node], &self.devices.usage());
        found.map_err(|shortage| shortage.to_string())
    }

    /// The devices that a claim gets on node a, and which it keeps.
    fn give(&mut self, name: &str, devices: Value) -> String {
        let mut claim = claim(name, devices);
        match self.try_on(0, std::slice::from_ref(&claim)) {
            Err(problem) => problem.replace("cannot allocate all claims: ", ""),
            Ok(mut found) => {
                let allocation = found.remove(0);
                let shown = shown(&allocation);
                Arc::make_mut(&mut claim).status =
                    Some(api::ResourceClaimStatus { allocation: Some(allocation), ..Default::default() });
                self.devices.set_claim(claim);
                shown
            }
        }
    }
}

use k8s_openapi::api::resource::v1 as api;

fn shown(allocation: &AllocationResult) -> String {
    let results = allocation.devices.as_ref().unwrap().results.as_ref().unwrap();
    let each = results.iter().map(|one| format!("{}={}/{}", one.request, one.pool, one.device));
    each.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_device_is_given_out_once() {
    let mut world = world();
    assert_eq!(world.give("one", exactly(json!({"count": 3}))), "r=a/gpu-0 r=a/gpu-1 r=a/gpu-2");
    assert_eq!(
        world.give("two", exactly(json!({"count": 2}))),
        "request r of two wants 2 devices of class gpu: 1 of 4 that match are free"
    );
    assert_eq!(world.give("three", exactly(json!({}))), "r=a/gpu-3");
    assert_eq!(
        world.give("all", exactly(json!({"allocationMode": "All"}))),
        "request r of all wants all devices of class gpu: 0 of 4 that match are free"
    );
    // Who looks after devices takes them from nobody.
    let admin = exactly(json!({"allocationMode": "All", "adminAccess": true}));
    assert_eq!(world.give("admin", admin), "r=a/gpu-0 r=a/gpu-1 r=a/gpu-2 r=a/gpu-3");
    let gone = claim("one", json!({}));
    world.devices.remove_claim(&gone);
    assert_eq!(world.give("four", exactly(json!({"count": 3}))), "r=a/gpu-0 r=a/gpu-1 r=a/gpu-2");
}

#[test]
fn selectors_decide_and_their_errors_are_told() {
    let mut world = world();
    let a100 = "device.attributes['gpu.example'].model == 'a100'";
    assert_eq!(world.give("one", selected(a100)), "r=a/gpu-3");
    assert_eq!(
        world.give("two", selected(a100)),
        "request r of two wants a device of class gpu: 0 of 1 that match are free"
    );
    assert_eq!(
        world.give("three", selected("device.attributes['gpu.example'].model == 'h100'")),
        "request r of three wants a device of class gpu: none of the 4 devices here matches"
    );
    assert_eq!(
        world.give("four", selected("device.attributes['gpu.example'].colour == 'red'")),
        "request r of four wants a device of class gpu: a selector has no answer for gpu-0: no such key: colour"
    );
    let unknown = json!({"requests": [{"name": "r", "exactly": {"deviceClassName": "tpu"}}]});
    assert_eq!(
        world.give("five", unknown),
        "resourceclaim \"five\": request r: device class tpu does not exist"
    );
}

#[test]
fn first_alternative_that_can_be_had_is_taken() {
    let mut world = world();
    let a100 = json!([{"cel": {"expression": "device.attributes['gpu.example'].model == 'a100'"}}]);
    let devices = json!({"requests": [{"name": "r", "firstAvailable": [
        {"name": "big", "deviceClassName": "gpu", "selectors": a100},
        {"name": "two", "deviceClassName": "gpu", "count": 2},
    ]}]});
    assert_eq!(world.give("one", devices.clone()), "r/big=a/gpu-3");
    assert_eq!(world.give("two", devices.clone()), "r/two=a/gpu-0 r/two=a/gpu-1");
    assert!(world.give("three", devices).contains("request r/two"), "the last one is told");
}

#[test]
fn constraints_make_the_search_go_back() {
    let mut world = world();
    assert_eq!(world.give("one", exactly(json!({}))), "r=a/gpu-0");
    let requests = json!([{"name": "x", "exactly": {"deviceClassName": "gpu"}},
        {"name": "y", "exactly": {"deviceClassName": "gpu"}}]);
    let with = |constraint: Value| json!({"requests": requests, "constraints": [constraint]});
    let same = with(json!({"matchAttribute": "gpu.example/numa"}));
    assert_eq!(world.give("two", same.clone()), "x=a/gpu-2 y=a/gpu-3", "gpu-1 is alone by now");
    assert!(world.give("three", same).contains("wants a device"));
    world.devices.remove_claim(&claim("one", json!({})));
    world.devices.remove_claim(&claim("two", json!({})));
    let apart = with(json!({"distinctAttribute": "gpu.example/numa", "requests": ["x", "y"]}));
    assert_eq!(world.give("four", apart), "x=a/gpu-0 y=a/gpu-2");
    let missing = with(json!({"matchAttribute": "gpu.example/slot"}));
    assert_eq!(
        world.give("five", missing),
        "request x of five wants a device of class gpu: 2 of 4 that match are free, but constraints, counters \
         or capacity leave no way"
    );
}

#[test]
fn claims_of_one_pod_get_all_or_nothing() {
    let world = world();
    let three = |name: &str| claim(name, exactly(json!({"count": 3})));
    assert!(world.try_on(0, &[three("one"), three("two")]).is_err());
    let both = [three("one"), claim("two", exactly(json!({})))];
    let found = world.try_on(1, &both).unwrap();
    assert_eq!([shown(&found[0]), shown(&found[1])], ["r=b/gpu-0 r=b/gpu-1 r=b/gpu-2", "r=b/gpu-3"]);
    let terms = found[0].node_selector.as_ref().unwrap();
    let field = &terms.node_selector_terms[0].match_fields.as_ref().unwrap()[0];
    assert_eq!((field.key.as_str(), field.values.as_deref()), ("metadata.name", Some(&["b".to_owned()][..])));
}

#[test]
fn tainted_devices_need_a_toleration() {
    let mut world = world();
    let rule = json!({"metadata": {"name": "broken"}, "spec": {"deviceSelector": {"pool": "a"},
        "taint": {"key": "example.com/broken", "value": "yes", "effect": "NoSchedule"}}});
    world.devices.set_rule(Arc::new(serde_json::from_value(rule).unwrap()));
    assert_eq!(
        world.give("one", exactly(json!({}))),
        "request r of one wants a device of class gpu: 4 match, 0 free, untolerated taint {example.com/broken=yes:NoSchedule}"
    );
    assert!(world.try_on(1, &[claim("b", exactly(json!({})))]).is_ok(), "the other node's are not meant");
    let tolerated = json!({"tolerations": [{"key": "example.com/broken", "operator": "Exists"}]});
    assert_eq!(world.give("two", exactly(tolerated)), "r=a/gpu-0");
    world.devices.remove_rule("broken");
    assert_eq!(world.give("three", exactly(json!({}))), "r=a/gpu-1");
}

#[test]
fn pool_counts_when_it_is_complete() {
    let mut world = world();
    let gpu = json!([{"name": "new"}]);
    let pool = json!({"name": "a", "generation": 2, "resourceSliceCount": 2});
    let mut half = |name: &str| {
        let spec = json!({"driver": "gpu.example", "nodeName": "a", "pool": pool, "devices": gpu});
        let object = json!({"metadata": {"name": name}, "spec": spec});
        world.devices.set_slice(&serde_json::from_value(object).unwrap());
    };
    half("x");
    let ask = || exactly(json!({}));
    assert!(world.give("one", ask()).ends_with("the devices of gpu.example are not all published yet"));
    let other = json!({"metadata": {"name": "y"}, "spec": {"driver": "gpu.example", "nodeName": "a", "pool": pool,
        "devices": [{"name": "newer"}]}});
    world.devices.set_slice(&serde_json::from_value(other).unwrap());
    assert_eq!(world.give("two", ask()), "r=a/new");
    assert_eq!(world.give("three", ask()), "r=a/newer", "the old generation is gone");
}

#[test]
fn shared_device_is_given_out_by_its_capacity() {
    let mut world = world();
    let policy = json!({"default": "8Gi", "validRange": {"min": "4Gi", "step": "4Gi", "max": "32Gi"}});
    slice(
        &mut world.devices,
        "a",
        json!({"nodeName": "a", "devices": [{"name": "big", "allowMultipleAllocations": true,
            "capacity": {"memory": {"value": "32Gi", "requestPolicy": policy}}}]}),
    );
    let of = |memory: &str| exactly(json!({"capacity": {"requests": {"memory": memory}}}));
    assert_eq!(world.give("one", of("17Gi")), "r=a/big");
    let claim = &world.devices.claims[&Key::new("ns", "one")];
    let results = allocation(claim).unwrap().devices.as_ref().unwrap().results.as_ref().unwrap();
    let consumed = results[0].consumed_capacity.as_ref().unwrap();
    assert_eq!(consumed["memory"].0, "20Gi", "rounded up to a valid amount");
    assert_eq!(world.give("two", exactly(json!({}))), "r=a/big", "the usual amount");
    assert!(world.give("three", of("8Gi")).contains("leave no way"), "4Gi are left");
    assert_eq!(world.give("four", of("1Gi")), "r=a/big");
    assert!(world.give("five", of("64Gi")).contains("leave no way"));
}

#[test]
fn counters_bound_what_parts_of_a_device_can_be_had_together() {
    let mut world = world();
    let counters = json!([{"name": "gpu", "counters": {"slices": {"value": "4"}}}]);
    let part = |name: &str, slices: &str| json!({"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": {"slices": {"value": slices}}}]});
    let devices = json!([part("whole", "4"), part("half-0", "2"), part("half-1", "2")]);
    let of = |more: Value| {
        let mut spec = json!({"driver": "gpu.example", "nodeName": "a",
            "pool": {"name": "a", "generation": 2, "resourceSliceCount": 2}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    for (name, spec) in
        [("x", of(json!({"sharedCounters": counters}))), ("y", of(json!({"devices": devices})))]
    {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        world.devices.set_slice(&serde_json::from_value(object).unwrap());
    }
    assert_eq!(
        world.give("two", exactly(json!({"count": 2}))),
        "r=a/half-0 r=a/half-1",
        "beside the whole there is nothing"
    );
    assert!(world.give("three", exactly(json!({}))).contains("leave no way"));
    world.devices.remove_claim(&claim("two", json!({})));
    assert_eq!(world.give("four", exactly(json!({}))), "r=a/whole");
    assert!(world.give("five", exactly(json!({}))).contains("2 of 3 that match are free"));
}

#[test]
fn hostile_claim_does_not_hold_up_the_scheduler() {
    let mut world = world();
    let gpus: Vec<Value> =
        (0..128).map(|at| json!({"name": format!("g{at}"), "attributes": {"n": {"int": at}}})).collect();
    slice(&mut world.devices, "a", json!({"nodeName": "a", "devices": gpus}));
    let requests: Vec<Value> = (0..8)
        .map(|at| json!({"name": format!("r{at}"), "exactly": {"deviceClassName": "gpu", "count": 4}}))
        .collect();
    let constraint = json!([{"requests": ["r7"], "matchAttribute": "gpu.example/n"}]);
    let told = world.give("one", json!({"requests": requests, "constraints": constraint}));
    assert!(told.ends_with("there are too many ways to choose among 128 devices"), "{told}");
}

#[test]
fn devices_that_several_nodes_reach_leave_the_pod_its_choice() {
    let mut world = world();
    let zone = |value: &str| json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]}]});
    slice(
        &mut world.devices,
        "net",
        json!({"driver": "nic.example", "nodeSelector": zone("b"), "devices": [{"name": "nic"}]}),
    );
    slice(
        &mut world.devices,
        "any",
        json!({"driver": "any.example", "allNodes": true, "devices": [{"name": "any"}]}),
    );
    class(
        &mut world.devices,
        "net",
        json!({"selectors": [{"cel": {"expression": "device.driver == 'nic.example'"}}]}),
    );
    class(
        &mut world.devices,
        "any",
        json!({"selectors": [{"cel": {"expression": "device.driver == 'any.example'"}}]}),
    );
    let ask = |class: &str| {
        claim(class, json!({"requests": [{"name": "r", "exactly": {"deviceClassName": class}}]}))
    };
    assert!(world.try_on(0, &[ask("net")]).is_err());
    let found = world.try_on(1, &[ask("net")]).unwrap();
    let term = &found[0].node_selector.as_ref().unwrap().node_selector_terms[0];
    assert_eq!(term.match_expressions.as_ref().unwrap()[0].key, "zone");
    assert!(world.try_on(0, &[ask("any")]).unwrap()[0].node_selector.is_none());
}
