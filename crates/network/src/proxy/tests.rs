//! Golden files of rulesets and changes, tables of what Services mean, and the property of [`diff`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use minik8s_meta::IpFamily;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The node and the family that tests are about.
const V4: (&str, IpFamily) = ("a", IpFamily::V4);

fn service(name: &str, spec: Value) -> Service {
    serde_json::from_value(json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})).unwrap()
}

fn slice(service: &str, ports: Value, endpoints: Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "default",
            "name": format!("{service}-1"),
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": endpoints,
    }))
    .unwrap()
}

/// Endpoints as `ADDRESS@NODE`, followed by `!` if not ready, `~` if terminating and yet serving.
fn endpoints(texts: &[&str]) -> Value {
    let endpoint = |text: &&str| {
        let plain = text.trim_end_matches(['!', '~']);
        let (address, node) = plain.split_once('@').unwrap_or((plain, "a"));
        let (ready, serving) = (plain.len() == text.len(), !text.ends_with('!'));
        let conditions = json!({"ready": ready, "serving": serving, "terminating": text.ends_with('~')});
        json!({"addresses": [address], "nodeName": node, "conditions": conditions})
    };
    texts.iter().map(endpoint).collect()
}

fn tcp(port: u16) -> Value {
    json!([{"port": port, "protocol": "TCP"}])
}

fn rules(services: &[Service], slices: &[EndpointSlice]) -> Ruleset {
    ruleset(&plan(services, slices, ("a", IpFamily::V4)), "minik8s-test", "10.244.0.0/16".parse().unwrap())
}

fn shop() -> (Vec<Service>, Vec<EndpointSlice>) {
    let mut turns = service("turns", json!({"clusterIP": "10.96.0.4", "ports": [{"port": 80}]}));
    turns.metadata.annotations = Some([("minik8s.io/balance".to_owned(), "round-robin".to_owned())].into());
    let services = vec![
        service(
            "web",
            json!({"clusterIP": "10.96.0.1", "type": "NodePort", "ports": [
                {"name": "http", "port": 80, "nodePort": 30080},
                {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053},
            ]}),
        ),
        service(
            "local",
            json!({
                "clusterIP": "10.96.0.2", "type": "LoadBalancer", "externalTrafficPolicy": "Local",
                "externalIPs": ["192.0.2.7"], "ports": [{"port": 443, "nodePort": 30443}],
            }),
        ),
        service(
            "sticky",
            json!({
                "clusterIP": "10.96.0.3", "sessionAffinity": "ClientIP", "ports": [{"port": 80}],
            }),
        ),
        turns,
        service("empty", json!({"clusterIP": "10.96.0.5", "ports": [{"port": 80}]})),
        service("headless", json!({"clusterIP": "None", "ports": [{"port": 80}]})),
    ];
    let two = || endpoints(&["10.244.0.2", "10.244.1.3@b"]);
    let web_ports = json!([{"name": "http", "port": 8080}, {"name": "dns", "port": 5353, "protocol": "UDP"}]);
    let slices = vec![
        slice("web", web_ports, two()),
        slice("local", tcp(8443), two()),
        slice("sticky", tcp(80), two()),
        slice("turns", tcp(80), two()),
        slice("headless", tcp(80), two()),
    ];
    (services, slices)
}

#[test]
fn the_whole_ruleset() {
    let (services, slices) = shop();
    insta::assert_snapshot!(rules(&services, &slices));
}

/// The shop with addresses of IPv6, which are those of IPv4 in a range of their own.
fn shop_v6() -> (Vec<Service>, Vec<EndpointSlice>) {
    let moved = |value: Value| {
        let text = value.to_string().replace("10.96.0.", "fd00:96::").replace("10.244.", "fd00:244::");
        let text = text.replace("192.0.2.", "2001:db8::").replace("\"IPv4\"", "\"IPv6\"");
        // fd00:244::1.3 is fd00:244::1:3.
        serde_json::from_str::<Value>(&text.replace("::0.", "::").replace("::1.", "::1:")).unwrap()
    };
    let (services, slices) = shop();
    let services = services.into_iter().map(|one| moved(serde_json::to_value(one).unwrap()));
    let slices = slices.into_iter().map(|one| moved(serde_json::to_value(one).unwrap()));
    let read = |value| serde_json::from_value(value).unwrap();
    (services.map(read).collect(), slices.map(|value| serde_json::from_value(value).unwrap()).collect())
}

#[test]
fn the_whole_ruleset_of_ipv6() {
    let (services, slices) = shop_v6();
    let routes = plan(&services, &slices, ("a", IpFamily::V6));
    insta::assert_snapshot!(ruleset(&routes, "minik8s-test", "fd00:244::/56".parse().unwrap()));
    assert_eq!(plan(&services, &slices, V4), Routes::default(), "nothing of it is IPv4's");
}

#[test]
fn a_change_holds_only_what_differs() {
    let (services, slices) = shop();
    let before = rules(&services, &slices);
    let check = |name: &str, edit: &dyn Fn(&mut Vec<Service>, &mut Vec<EndpointSlice>)| {
        let (mut services, mut slices) = (services.clone(), slices.clone());
        edit(&mut services, &mut slices);
        insta::assert_snapshot!(name, diff(&before, &rules(&services, &slices)).unwrap());
    };
    check("nothing", &|_, _| {});
    check("another_endpoint", &|_, slices| {
        slices[2] = slice("sticky", tcp(80), endpoints(&["10.244.0.2", "10.244.1.9@b"]));
    });
    check("a_third_endpoint", &|_, slices| {
        let three = endpoints(&["10.244.0.2", "10.244.1.3@b", "10.244.2.4@c"]);
        slices[3] = slice("turns", tcp(80), three);
    });
    check("no_endpoint_left", &|_, slices| slices[0].endpoints = None);
    check("service_removed", &|services, _| drop(services.remove(1)));
}

#[test]
fn who_gets_connections() {
    let check = |spec: Value, listed: &[&str], inside: &[&str], outside: Option<&[&str]>| {
        let mut whole = json!({
            "clusterIP": "10.96.0.1", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}],
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let routes = plan(&[service("s", whole)], &[slice("s", tcp(8080), endpoints(listed))], V4);
        let shown = |balance: &Balance| -> Vec<String> {
            balance.endpoints.iter().map(|endpoint| endpoint.ip().to_string()).collect()
        };
        let cluster = &routes.frontends[&Frontend::Address([10, 96, 0, 1].into(), Protocol::Tcp, 80)];
        let node = &routes.frontends[&Frontend::NodePort(Protocol::Tcp, 30080)];
        assert_eq!(shown(&cluster.inside), inside, "{spec} {listed:?}");
        let local = node.outside.as_ref().map(shown);
        assert_eq!(
            local.as_deref().map(|all| all.iter().map(String::as_str).collect()),
            outside.map(Vec::from)
        );
        assert_eq!(cluster.outside, None);
    };
    let (here, there) = ("10.244.0.2", "10.244.1.3");
    check(json!({}), &[here, "10.244.1.3@b"], &[here, there], None);
    check(json!({}), &["10.244.0.2!", "10.244.1.3@b"], &[there], None);
    check(json!({}), &["10.244.0.2~", "10.244.1.3@b"], &[there], None);
    check(json!({}), &["10.244.0.2~", "10.244.1.3@b!"], &[here], None);
    check(json!({}), &["10.244.0.2!"], &[], None);
    check(json!({}), &["not an address", "fe80::1"], &[], None);
    check(json!({"internalTrafficPolicy": "Local"}), &[here, "10.244.1.3@b"], &[here], None);
    check(json!({"internalTrafficPolicy": "Local"}), &["10.244.1.3@b"], &[], None);
    let local = json!({"externalTrafficPolicy": "Local"});
    check(local.clone(), &[here, "10.244.1.3@b"], &[here, there], Some(&[here]));
    check(local.clone(), &["10.244.0.2~", "10.244.1.3@b"], &[there], Some(&[here]));
    check(local, &["10.244.1.3@b"], &[there], Some(&[]));
}

#[test]
fn what_is_a_frontend() {
    let check = |spec: Value, status: Value, expected: usize| {
        let mut one = service("s", spec.clone());
        one.status = serde_json::from_value(status).unwrap();
        assert_eq!(plan(&[one], &[], V4).frontends.len(), expected, "{spec}");
    };
    let ports = json!([{"port": 80}]);
    check(json!({"clusterIP": "10.96.0.1", "ports": ports}), json!({}), 1);
    check(json!({"clusterIP": "None", "ports": ports}), json!({}), 0);
    check(json!({"type": "ExternalName", "externalName": "example.org", "ports": ports}), json!({}), 0);
    check(json!({"clusterIP": "10.96.0.1"}), json!({}), 0);
    check(
        json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.96.0.1"], "ports": ports}),
        json!({}),
        1,
    );
    let both =
        service("s", json!({"clusterIPs": ["fd00::1", "10.96.0.1"], "ports": ports, "type": "NodePort"}));
    let frontends = |family| plan([&both], &[], ("a", family)).frontends.into_keys().collect::<Vec<_>>();
    let address = |text: &str| vec![Frontend::Address(text.parse().unwrap(), Protocol::Tcp, 80)];
    assert_eq!(
        (frontends(IpFamily::V4), frontends(IpFamily::V6)),
        (address("10.96.0.1"), address("fd00::1"))
    );
    check(json!({"clusterIP": "10.96.0.1", "ports": [{"port": 80, "protocol": "SCTP"}]}), json!({}), 1);
    check(json!({"clusterIP": "10.96.0.1", "ports": [{"port": 80, "protocol": "ICMP"}]}), json!({}), 0);
    check(json!({"clusterIP": "10.96.0.1", "ports": [{"port": 0}, {"port": 70000}]}), json!({}), 0);
    let ingress =
        |ip_mode: &str| json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": ip_mode}]}});
    check(json!({"clusterIP": "10.96.0.1", "ports": ports}), ingress("VIP"), 2);
    check(json!({"clusterIP": "10.96.0.1", "ports": ports}), ingress("Proxy"), 1);
}

#[test]
fn the_first_of_two_claims_wins() {
    let claim = |name: &str, ip: &str| {
        service(name, json!({"clusterIP": ip, "externalIPs": ["192.0.2.1"], "ports": [{"port": 80}]}))
    };
    let slices =
        [slice("x", tcp(1), endpoints(&["10.244.0.1"])), slice("y", tcp(2), endpoints(&["10.244.0.2"]))];
    let routes = plan(&[claim("x", "10.96.0.1"), claim("y", "10.96.0.2")], &slices, V4);
    let route = &routes.frontends[&Frontend::Address([192, 0, 2, 1].into(), Protocol::Tcp, 80)];
    assert_eq!(route.inside.endpoints, BTreeSet::from(["10.244.0.1:1".parse().unwrap()]));
}

#[test]
fn flows_that_must_be_forgotten() {
    let routes = |endpoints: &[&str]| {
        let endpoints = endpoints.iter().map(|text| text.parse().unwrap()).collect();
        let route =
            Route { inside: Balance { pick: Pick::Random, endpoints }, outside: None, only_from: None };
        let both = [Protocol::Tcp, Protocol::Udp].map(|p| (Frontend::NodePort(p, 30053), route.clone()));
        Routes { frontends: both.into(), own_endpoints: BTreeSet::new() }
    };
    let check = |before: &Routes, after: &Routes, expected: &[Option<[u8; 4]>]| {
        let mut book = Book::default();
        book.put(&Default::default(), before.clone());
        book.take_changes();
        book.put(&Default::default(), after.clone());
        let found: Vec<_> = stale_flows(&book.take_changes()).into_iter().map(|flow| flow.endpoint).collect();
        assert_eq!(found, expected.iter().map(|ip| ip.map(IpAddr::from)).collect::<Vec<_>>());
    };
    let (one, two) = (routes(&["10.0.0.1:53"]), routes(&["10.0.0.1:53", "10.0.0.2:53"]));
    check(&one, &two, &[]);
    check(&two, &one, &[Some([10, 0, 0, 2])]);
    check(&one, &Routes::default(), &[Some([10, 0, 0, 1])]);
    check(&Routes::default(), &one, &[None]);
}

fn any_balance() -> impl Strategy<Value = Balance> {
    let pick = prop_oneof![Just(Pick::Random), Just(Pick::ByClient(60)), Just(Pick::RoundRobin)];
    let endpoint = (0..6u8, 80..82u16).prop_map(|(last, port)| SocketAddr::from(([10, 244, 0, last], port)));
    (pick, prop::collection::btree_set(endpoint, 0..4))
        .prop_map(|(pick, endpoints)| Balance { pick, endpoints })
}

fn any_frontend() -> impl Strategy<Value = Frontend> {
    let protocol = || prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    prop_oneof![
        (0..3u8, protocol(), 80..82u16).prop_map(|(last, p, port)| Frontend::Address(
            [10, 96, 0, last].into(),
            p,
            port
        )),
        (protocol(), 30000..30002u16).prop_map(|(p, port)| Frontend::NodePort(p, port)),
    ]
}

fn any_routes() -> impl Strategy<Value = Routes> {
    let ranges = prop::option::of(Just(vec!["192.0.2.0/24".parse().unwrap()]));
    let route = (any_balance(), prop::option::of(any_balance()), ranges)
        .prop_map(|(inside, outside, only_from)| Route { inside, outside, only_from });
    prop::collection::btree_map(any_frontend(), route, 0..6).prop_map(|frontends: BTreeMap<_, _>| {
        let balances = frontends.values().flat_map(Route::balances);
        let own_endpoints = balances.flat_map(|balance| &balance.endpoints).map(|e| e.ip()).collect();
        Routes { frontends, own_endpoints }
    })
}

fn whole(routes: &Routes) -> Ruleset {
    ruleset(routes, "t", "10.244.0.0/16".parse().unwrap())
}

proptest! {
    #[test]
    fn a_change_leads_from_one_ruleset_to_the_other(from in any_routes(), to in any_routes()) {
        let (from, to) = (whole(&from), whole(&to));
        let change = diff(&from, &to).unwrap();
        prop_assert_eq!(change.is_empty(), from == to);
        let mut result = from;
        change.apply(&mut result);
        prop_assert_eq!(result, to);
    }

    /// Services that come, change and go one by one leave the same rules as all of them at once.
    #[test]
    fn step_by_step_is_the_same_as_at_once(steps in prop::collection::vec((0..3u8, any_routes()), 1..8)) {
        let mut book = Book::default();
        let mut table = Table::new(IpFamily::V4, "t", &Routes::default());
        let mut rules = whole(&Routes::default());
        for (service, routes) in steps {
            book.put(&(String::new(), service.to_string()), routes);
            let change = table.change(&book.take_changes());
            change.apply(&mut rules);
            let expected = whole(&book.routes());
            prop_assert_eq!(&rules, &expected);
        }
        prop_assert!(book.take_changes().is_empty());
    }
}
