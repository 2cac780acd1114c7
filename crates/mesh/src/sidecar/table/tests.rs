//! Which rule a request meets, and how often each endpoint has its turn.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use http::HeaderMap;
use minik8s_proxy::Route;
use serde_json::{Value, json};

use super::*;
use crate::sidecar::tls::tests::FakeAuthority;

const VIP: &str = "10.96.0.5:9080";

fn table(change: Value, before: &Table) -> Table {
    let mut route =
        json!({"uid": "u", "revision": "r", "service": "ns/reviews", "addresses": [VIP], "rules": []});
    change.as_object().unwrap().iter().for_each(|(key, value)| route[key] = value.clone());
    Table::new(&[serde_json::from_value(route).unwrap()], &[], None, "", before)
}

fn ask(table: &Table, target: &str, headers: &[(&'static str, &str)]) -> Result<SocketAddr, u16> {
    let client = Client::new("10.244.0.9:40000".parse().unwrap(), "http").towards(VIP.parse().unwrap());
    let headers: HeaderMap =
        headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    let head = RequestHead { method: "GET", host: "reviews", target, headers: &headers };
    let rule = Outbound::find(table, &client, &head).map_err(|refusal| refusal.status.as_u16())?;
    let endpoints = rule.endpoints().map_err(|refusal| refusal.status.as_u16())?;
    Ok(endpoints[rule.first(&client, &AtomicUsize::new(0), endpoints.len())])
}

fn endpoints(list: &[(&str, u64)]) -> Value {
    list.iter().map(|(address, weight)| json!({"address": address, "pod": "p", "weight": weight})).collect()
}

const V1: &str = "10.244.0.1:9080";
const V2: &str = "10.244.0.2:9080";
const V3: &str = "10.244.0.3:9080";

#[test]
fn weights_are_exact() {
    let table =
        table(json!({"rules": [{"endpoints": endpoints(&[(V1, 1), (V2, 1), (V3, 4)])}]}), &Table::default());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..600 {
        *counts.entry(ask(&table, "/reviews/1", &[]).unwrap().to_string()).or_default() += 1;
    }
    let expected = [(V1, 100), (V2, 100), (V3, 400)].map(|(address, count)| (address.to_owned(), count));
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn first_match_wins() {
    let rules = json!({"rules": [
        {"headers": {"end-user": "^jason$"}, "endpoints": endpoints(&[(V2, 1)])},
        {"url": "^/reviews/[0-9]+$", "headers": {"x-canary": "."}, "endpoints": endpoints(&[(V3, 1)])},
        {"url": "^/admin", "endpoints": []},
        {"endpoints": endpoints(&[(V1, 1)])},
    ]});
    let table = table(rules, &Table::default());
    let check = |target: &str, headers: &[(&'static str, &str)], expected: Result<&str, u16>| {
        let found = ask(&table, target, headers).map(|address| address.to_string());
        assert_eq!(found, expected.map(str::to_owned), "{target} {headers:?}");
    };
    check("/reviews/7", &[], Ok(V1));
    check("/reviews/7", &[("end-user", "jason")], Ok(V2));
    check("/reviews/7", &[("end-user", "jason2")], Ok(V1));
    check("/reviews/7", &[("x-canary", "1")], Ok(V3));
    check("/reviews/7?x=1", &[("x-canary", "1")], Ok(V1));
    check("/reviews/7", &[("x-canary", "1"), ("end-user", "jason")], Ok(V2));
    check("/admin", &[], Err(503));
}

#[test]
fn fault_hits_its_percentage() {
    let fault =
        json!({"abort": {"percent": 30, "status": 555}, "rules": [{"endpoints": endpoints(&[(V1, 1)])}]});
    let table = table(fault, &Table::default());
    let failed = (0..1000).filter(|_| ask(&table, "/", &[]) == Err(555)).count();
    assert_eq!(failed, 300);
}

#[test]
fn connections_without_a_route_are_passed_on() {
    let vip: SocketAddr = VIP.parse().unwrap();
    let nothing = Table::default();
    assert_eq!(nothing.way(vip), Way::Opaque(vec![vip]));
    let http = table(json!({"rules": [{"endpoints": endpoints(&[(V1, 1)])}]}), &nothing);
    assert_eq!(http.way(vip), Way::UnsaidRequests(vec![V1.parse().unwrap()]), "nobody says that it is HTTP");
    // The VirtualService is gone; a connection that was open for requests can still make them.
    let freed = Table::new(&[], &[], None, "", &http);
    assert_eq!(ask(&freed, "/", &[]).unwrap(), vip);
    let opaque =
        table(json!({"opaque": true, "rules": [{"endpoints": endpoints(&[(V1, 1), (V2, 1)])}]}), &nothing);
    let Way::Opaque(mut tries) = opaque.way(vip) else { panic!("looked into") };
    tries.sort();
    assert_eq!(tries, [V1.parse().unwrap(), V2.parse().unwrap()]);
    assert_eq!(Table::new(&[], &[], None, "", &opaque).way(vip), Way::Opaque(vec![vip]));
}

/// Whoever speaks first decides where nobody has said what is spoken, and takes no turn of a request.
#[test]
fn port_that_says_http_waits_for_requests() {
    let vip: SocketAddr = VIP.parse().unwrap();
    let rules = json!([{"headers": {"end-user": "^jason$"}, "endpoints": endpoints(&[(V3, 1)])},
        {"endpoints": endpoints(&[(V1, 1), (V2, 1)])}]);
    let route =
        json!({"uid": "u", "revision": "r", "service": "ns/reviews", "addresses": [VIP], "rules": rules});
    let route: MeshRouteSpec = serde_json::from_value(route).unwrap();
    let table = |http: bool| {
        let port = json!({"addresses": [VIP], "http": http, "endpoints": endpoints(&[(V1, 1)])});
        let service = serde_json::from_value(json!({"service": "ns/reviews", "ports": [port]})).unwrap();
        Table::new(std::slice::from_ref(&route), &[service], None, "", &Table::default())
    };
    assert_eq!(table(true).way(vip), Way::Requests);
    let unsaid = table(false);
    let both: HashSet<_> = (0..2)
        .map(|_| {
            let Way::UnsaidRequests(tries) = unsaid.way(vip) else { panic!("of requests alone") };
            assert_eq!(tries.len(), 2, "not those of a rule about headers");
            assert_eq!(unsaid.way(vip), Way::UnsaidRequests(tries.iter().rev().copied().collect()));
            ask(&unsaid, "/", &[]).unwrap()
        })
        .collect();
    assert_eq!(both.len(), 2, "requests have turns of their own");
}

/// Services without a VirtualService: led to a pod by the proxy itself, with TLS where the pod has a proxy.
#[test]
fn services_lead_to_pods_that_are_known() {
    let vip: SocketAddr = VIP.parse().unwrap();
    let service = |http: bool| -> MeshServiceSpec {
        let meshed = json!({"address": V1, "pod": "p", "weight": 1, "serviceAccount": "ns/reviews"});
        let plain = json!({"address": V2, "pod": "q", "weight": 1});
        let port = json!({"addresses": [VIP], "http": http, "endpoints": [meshed, plain]});
        serde_json::from_value(json!({"service": "ns/reviews", "ports": [port]})).unwrap()
    };
    let tls = Arc::new(FakeAuthority::new().account("ns/web"));
    let table = Table::new(&[], &[service(false)], Some(tls), "", &Table::default());
    let Way::Opaque(tries) = table.way(vip) else { panic!("looked into") };
    assert_eq!(tries.len(), 2);
    assert!(table.secured(V1.parse().unwrap()).is_some() && table.secured(V2.parse().unwrap()).is_none());
    assert!(table.secured("10.244.0.1:81".parse().unwrap()).is_some(), "any port of the pod");
    assert!(table.is_of_mesh([10, 244, 0, 1].into()) && !table.is_of_mesh([10, 244, 0, 2].into()));
    let http = Table::new(&[], &[service(true)], None, "", &Table::default());
    assert!(matches!(http.way(vip), Way::PlainRequests(tries) if tries.len() == 2));
    assert!(http.secured(V1.parse().unwrap()).is_none(), "it has nothing to show yet");
    assert!(ask(&http, "/", &[]).is_ok());
}

/// By its port or by a VirtualService; older programs take it as opaque.
#[test]
fn grpc_is_led_by_request_over_http2() {
    let vip: SocketAddr = VIP.parse().unwrap();
    let port = json!({"addresses": [VIP], "grpc": true, "endpoints": endpoints(&[(V1, 1), (V2, 1)])});
    let service = serde_json::from_value(json!({"service": "ns/reviews", "ports": [port]})).unwrap();
    let plain = Table::new(&[], &[service], None, "", &Table::default());
    let rules = json!([{"headers": {"end-user": "^jason$"}, "endpoints": endpoints(&[(V3, 1)])},
        {"endpoints": endpoints(&[(V1, 1), (V2, 1)])}]);
    let ruled = table(json!({"opaque": true, "grpc": true, "rules": rules}), &Table::default());
    assert_eq!(ask(&ruled, "/a.B/C", &[("end-user", "jason")]), Ok(V3.parse().unwrap()));
    for table in [&plain, &ruled] {
        assert!(matches!(table.way(vip), Way::GrpcRequests(_)));
        assert!(table.services[&vip].rules.iter().all(|rule| rule.answers_itself()));
        let both: HashSet<_> = (0..2).map(|_| ask(table, "/a.B/C", &[]).unwrap()).collect();
        assert_eq!(both.len(), 2);
    }
}

#[test]
fn what_a_virtual_service_says_of_failures_holds() {
    let wanted = json!({"rules": [{"endpoints": endpoints(&[(V1, 1), (V2, 1)])}],
        "retries": {"attempts": 2}, "delay": {"percent": 10, "milliseconds": 70},
        "mirror": {"percent": 50, "endpoints": endpoints(&[(V3, 1)])}, "outlier": {"failures": 1, "ejectSeconds": 60}});
    let first = table(wanted.clone(), &Table::default());
    let rule = &first.services[&VIP.parse().unwrap()].rules[0];
    let retry = rule.retry().unwrap();
    assert!(retry.attempts == 2 && retry.on.reset && retry.on.code(503) && !retry.on.code(500));
    let delayed: Vec<Duration> = (0..100).filter_map(|_| rule.delay()).collect();
    assert_eq!(delayed, vec![Duration::from_millis(70); 10]);
    assert_eq!((0..100).filter_map(|_| rule.mirror()).collect::<Vec<_>>(), vec![V3.parse().unwrap(); 50]);
    rule.outcome(V1.parse().unwrap(), true);
    assert_eq!(*rule.endpoints().unwrap(), [V2.parse::<SocketAddr>().unwrap()]);
    let again = table(wanted, &first);
    assert_eq!(ask(&again, "/", &[]), Ok(V2.parse().unwrap()), "a new table remembers");
}
