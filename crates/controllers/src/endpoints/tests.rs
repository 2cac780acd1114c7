use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;

fn service(change: Value) -> Service {
    let mut spec = json!({
        "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80, "targetPort": "web"}],
        "clusterIP": "10.96.0.5",
        "ipFamilies": ["IPv4"],
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(
        json!({"metadata": {"name": "web", "namespace": "ns", "labels": {"a": "b"}}, "spec": spec}),
    )
    .unwrap()
}

fn pod(name: &str, ip: &str, ready: bool, port: i32) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}, "uid": name},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    }))
    .unwrap()
}

fn simulate(service: &Service, pods: &[Pod]) -> Simulation {
    let mut world = World::default();
    world.insert(service);
    let node = json!({"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}}});
    world.insert(&serde_json::from_value::<Node>(node).unwrap());
    for pod in pods {
        world.insert(pod);
    }
    Simulation::new(world).with(ServiceEndpoints)
}

/// Every endpoint of every slice as `address:port ready/serving/terminating`.
fn shown(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for slice in world.list::<EndpointSlice>() {
        let ports: Vec<String> =
            slice.ports.iter().flatten().map(|p| p.port.unwrap_or(0).to_string()).collect();
        for endpoint in slice.endpoints.unwrap_or_default() {
            let c = endpoint.conditions.unwrap();
            let flag = |name: &str, is: Option<bool>| {
                if is == Some(true) { format!(" {name}") } else { String::new() }
            };
            lines.push(format!(
                "{}:{}{}{}{}",
                endpoint.addresses.join(","),
                ports.join(","),
                flag("ready", c.ready),
                flag("serving", c.serving),
                flag("terminating", c.terminating)
            ));
        }
    }
    lines.sort();
    lines
}

#[test]
fn pods_become_endpoints() {
    let build = || {
        simulate(
            &service(json!({})),
            &[
                pod("a", "10.0.0.1", true, 8080),
                pod("b", "10.0.0.2", false, 8080),
                pod("c", "10.0.0.3", true, 9090),
            ],
        )
    };
    check_convergence(build, |simulation| {
        let world = &simulation.world;
        assert_eq!(
            shown(world),
            ["10.0.0.1:8080 ready serving", "10.0.0.2:8080", "10.0.0.3:9090 ready serving"]
        );
        let slice = &world.list::<EndpointSlice>()[0];
        let labels = slice.metadata.labels.as_ref().unwrap();
        assert_eq!((labels["a"].as_str(), labels[SERVICE_NAME].as_str()), ("b", "web"));
        let endpoint = &slice.endpoints.as_ref().unwrap()[0];
        assert_eq!((endpoint.node_name.as_deref(), endpoint.zone.as_deref()), (Some("n1"), Some("z1")));
        let endpoints: Endpoints = world.get(&Key::new("ns", "web")).unwrap();
        let subsets = endpoints.subsets.unwrap();
        assert_eq!(subsets.len(), 2);
        assert_eq!(subsets[0].addresses.as_ref().unwrap()[0].ip, "10.0.0.1");
        assert_eq!(subsets[0].not_ready_addresses.as_ref().unwrap()[0].ip, "10.0.0.2");
    });
}

/// As a stolen node can tell them of its own pods.
#[test]
fn addresses_that_no_slice_may_hold_keep_no_other_pod_out() {
    let odd = ["127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "::1", "::ffff:127.0.0.1", "x"];
    let mut pods: Vec<Pod> =
        odd.iter().enumerate().map(|(n, ip)| pod(&format!("odd-{n}"), ip, true, 80)).collect();
    pods.push(pod("a", "10.0.0.1", true, 80));
    pods.push(dual_stack_pod("b", ["::ffff:127.0.0.1", "10.0.0.2"]));
    let service = service(json!({"ipFamilies": ["IPv4", "IPv6"]}));
    check_convergence(
        || simulate(&service, &pods),
        |simulation| assert_eq!(by_family(&simulation.world), ["IPv4 10.0.0.1 10.0.0.2", "IPv6 -"]),
    );
}

#[test]
fn without_pods_there_is_one_empty_slice() {
    check_convergence(
        || simulate(&service(json!({})), &[]),
        |simulation| {
            assert_eq!(simulation.world.list::<EndpointSlice>().len(), 1);
            assert_eq!(simulation.world.list::<Endpoints>()[0].subsets, None);
        },
    );
}

/// `family address` of every endpoint, `family -` of a slice without any.
fn by_family(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for slice in world.list::<EndpointSlice>() {
        let endpoints = slice.endpoints.unwrap_or_default();
        let addresses = endpoints.iter().flat_map(|endpoint| endpoint.addresses.clone());
        let addresses: Vec<String> = addresses.collect();
        let shown = if addresses.is_empty() { "-".to_owned() } else { addresses.join(" ") };
        lines.push(format!("{} {shown}", slice.address_type));
    }
    lines.sort();
    lines
}

fn dual_stack_pod(name: &str, ips: [&str; 2]) -> Pod {
    let mut pod = pod(name, ips[0], true, 80);
    let ips = ips.map(|ip| serde_json::from_value(json!({"ip": ip})).unwrap());
    pod.status.as_mut().unwrap().pod_ips = Some(ips.into());
    pod
}

#[test]
fn slices_are_of_the_services_families() {
    let check = |families: &[&str], cluster_ip: &str, expected: &[&str], primary: &str| {
        let service = service(json!({"ipFamilies": families, "clusterIP": cluster_ip}));
        let pods = [dual_stack_pod("a", ["10.0.0.1", "fd00::1"]), pod("b", "10.0.0.2", true, 80)];
        check_convergence(
            || simulate(&service, &pods),
            |simulation| {
                assert_eq!(by_family(&simulation.world), expected, "{families:?}");
                let endpoints: Endpoints = simulation.world.get(&Key::new("ns", "web")).unwrap();
                let addresses = endpoints.subsets.unwrap_or_default().remove(0).addresses.unwrap();
                assert_eq!(addresses[0].ip, primary, "{families:?}");
            },
        );
    };
    check(&["IPv4"], "10.96.0.5", &["IPv4 10.0.0.1 10.0.0.2"], "10.0.0.1");
    check(&["IPv6"], "fd01::5", &["IPv6 fd00::1"], "fd00::1");
    check(&["IPv4", "IPv6"], "10.96.0.5", &["IPv4 10.0.0.1 10.0.0.2", "IPv6 fd00::1"], "10.0.0.1");
    check(&["IPv6", "IPv4"], "None", &["IPv4 10.0.0.1 10.0.0.2", "IPv6 fd00::1"], "fd00::1");
    // A Service from before there were families.
    check(&[], "fd01::5", &["IPv6 fd00::1"], "fd00::1");
}

#[test]
fn slices_come_and_go_with_the_services_families() {
    let mut simulation = simulate(&service(json!({})), &[pod("a", "10.0.0.1", true, 80)]);
    simulation.settle().unwrap();
    let families = |simulation: &mut Simulation, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        simulation.world.change::<Service>(&Key::new("ns", "web"), |service| {
            service.spec.as_mut().unwrap().ip_families = Some(names);
        });
        simulation.settle().unwrap();
        by_family(&simulation.world)
    };
    // Nobody has an address of the new family: its slice is there, and empty.
    assert_eq!(families(&mut simulation, &["IPv4", "IPv6"]), ["IPv4 10.0.0.1", "IPv6 -"]);
    assert_eq!(families(&mut simulation, &["IPv4"]), ["IPv4 10.0.0.1"]);
}

#[test]
fn whoever_selects_nothing_hears_of_it_once() {
    let seen = |slices: Vec<Arc<EndpointSlice>>, endpoints: Option<Arc<Endpoints>>| {
        let (service, zones) = (Arc::new(service(json!({}))), HashMap::new());
        Observed { service, pods: Vec::new(), zones, slices, endpoints }
    };
    let plan = ServiceEndpoints.plan(&seen(Vec::new(), None), Timestamp::UNIX_EPOCH);
    assert_eq!(plan.events.len(), 1);
    assert!(plan.events[0].message.starts_with("no pod has the labels app=web: "), "{:?}", plan.events);
    let mut simulation = simulate(&service(json!({})), &[]);
    simulation.settle().unwrap();
    let slices = simulation.world.list::<EndpointSlice>().into_iter().map(Arc::new).collect();
    let endpoints = simulation.world.list::<Endpoints>().into_iter().map(Arc::new).next();
    assert_eq!(ServiceEndpoints.plan(&seen(slices, endpoints), Timestamp::UNIX_EPOCH).events, []);
}

#[test]
fn services_without_selector_are_left_alone() {
    for change in [json!({"selector": null}), json!({"type": "ExternalName"})] {
        let mut simulation = simulate(&service(change), &[pod("a", "10.0.0.1", true, 80)]);
        simulation.settle().unwrap();
        assert_eq!(simulation.world.list::<EndpointSlice>().len(), 0);
    }
}

#[test]
fn pods_that_go_stay_visible_as_terminating() {
    let mut simulation = simulate(&service(json!({})), &[pod("a", "10.0.0.1", true, 80)]);
    simulation.settle().unwrap();
    simulation.world.delete::<Pod>(&Key::new("ns", "a"));
    simulation.settle().unwrap();
    assert_eq!(shown(&simulation.world), ["10.0.0.1:80 serving terminating"]);
    let endpoints: Endpoints = simulation.world.get(&Key::new("ns", "web")).unwrap();
    assert_eq!(endpoints.subsets, None);
    simulation.world.erase::<Pod>(&Key::new("ns", "a"));
    simulation.settle().unwrap();
    assert_eq!(shown(&simulation.world), [""; 0]);
}

#[test]
fn unready_pods_can_be_published_and_numbers_need_no_name() {
    let change = json!({"publishNotReadyAddresses": true, "ports": [{"port": 80, "targetPort": 1234}]});
    let mut simulation = simulate(&service(change), &[pod("a", "10.0.0.1", false, 80)]);
    simulation.settle().unwrap();
    assert_eq!(shown(&simulation.world), ["10.0.0.1:1234 ready serving"]);
}

#[test]
fn hosts_of_a_headless_service_keep_their_names() {
    let mut named = pod("a", "10.0.0.1", true, 80);
    let spec = named.spec.as_mut().unwrap();
    (spec.hostname, spec.subdomain) = (Some("a".to_owned()), Some("web".to_owned()));
    let mut simulation = simulate(&service(json!({"clusterIP": "None"})), &[named]);
    simulation.settle().unwrap();
    let slice = &simulation.world.list::<EndpointSlice>()[0];
    assert_eq!(slice.endpoints.as_ref().unwrap()[0].hostname.as_deref(), Some("a"));
    assert!(slice.metadata.labels.as_ref().unwrap().contains_key(HEADLESS));
}

#[test]
fn slices_hold_a_hundred_and_one_change_rewrites_one() {
    let pods: Vec<Pod> = (0..250)
        .map(|i| pod(&format!("p{i:03}"), &format!("10.0.{}.{}", i / 250, i % 250 + 1), true, 80))
        .collect();
    let mut simulation = simulate(&service(json!({})), &pods);
    simulation.settle().unwrap();
    let sizes: Vec<usize> = simulation
        .world
        .list::<EndpointSlice>()
        .iter()
        .map(|s| s.endpoints.as_ref().unwrap().len())
        .collect();
    assert_eq!(sizes, [100, 100, 50]);
    simulation.world.log.clear();
    simulation.world.erase::<Pod>(&Key::new("ns", "p007"));
    simulation.settle().unwrap();
    let written = simulation.world.log.iter().filter(|line| line.contains("endpointslices")).count();
    assert_eq!(written, 1, "{:?}", simulation.world.log);
}
