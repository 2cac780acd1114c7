//! Tables of names, and messages byte by byte.

mod fuzz;
mod resolver;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const A: u16 = 1;
const PTR: u16 = 12;
const AAAA: u16 = 28;
const SRV: u16 = 33;

fn example() -> Zone {
    let service = |name: &str, spec: serde_json::Value| -> Service {
        serde_json::from_value(json!({"metadata": {"namespace": "default", "name": name}, "spec": spec}))
            .unwrap()
    };
    let services = [
        service(
            "web",
            json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7", "fd00::7"], "ports": [
                {"name": "http", "port": 80}, {"port": 81},
            ]}),
        ),
        service("db", json!({"clusterIP": "None", "ports": [{"name": "sql", "port": 5432}]})),
        service("six", json!({"clusterIP": "None", "ports": [{"name": "sql", "port": 5432}]})),
        service("idle", json!({"clusterIP": "None"})),
        service("away", json!({"type": "ExternalName", "externalName": "Web.Default.svc.cluster.local."})),
        service(
            "circle",
            json!({"type": "ExternalName", "externalName": "circle.default.svc.cluster.local"}),
        ),
        service("home", json!({"type": "ExternalName", "externalName": "example.org"})),
    ];
    let slice = |service: &str, kind: &str, endpoints: serde_json::Value| -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {
                "namespace": "default", "name": "any", "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": kind,
            "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
            "endpoints": endpoints,
        }))
        .unwrap()
    };
    let four = json!([
        {"addresses": ["10.244.0.2"], "hostname": "db-0"},
        {"addresses": ["10.244.0.3"], "conditions": {"ready": true}},
        {"addresses": ["10.244.0.4"], "conditions": {"ready": false}},
    ]);
    let six = json!([{"addresses": ["fd00::2"], "hostname": "six-0"}, {"addresses": ["fd00::3"]}]);
    let slices = [slice("db", "IPv4", four), slice("six", "IPv6", six)];
    let mut zone = Zone::new("Cluster.Local.");
    for service in &services {
        let name = service.metadata.name.clone().unwrap();
        let is_of =
            |slice: &&EndpointSlice| slice.metadata.labels.as_ref().unwrap().values().any(|of| *of == name);
        let records = records(service, slices.iter().filter(is_of), zone.domain());
        zone.put(&("default".to_owned(), name), records);
    }
    zone.set_complete();
    zone
}

#[test]
fn names() {
    let zone = example();
    let check = |name: &str, expected: Option<&[Data]>| {
        let found = zone.records(name).map(|all| all.into_iter().map(|record| record.data).collect());
        assert_eq!(found, expected.map(Vec::from), "{name}");
    };
    let a = |last| Data::A([10, 244, 0, last].into());
    let ptr = |name: &str| Data::Ptr(name.to_owned());
    let srv = |port, target: &str| Data::Srv { port, target: target.to_owned() };
    let web = "web.default.svc.cluster.local";
    check(web, Some(&[Data::A([10, 96, 0, 7].into()), Data::Aaaa("fd00::7".parse().unwrap())]));
    check("_http._tcp.web.default.svc.cluster.local", Some(&[srv(80, web)]));
    check("_tcp.web.default.svc.cluster.local", Some(&[]));
    check("7.0.96.10.in-addr.arpa", Some(&[ptr(web)]));
    check("db.default.svc.cluster.local", Some(&[a(2), a(3)]));
    check("db-0.db.default.svc.cluster.local", Some(&[a(2)]));
    check("10-244-0-3.db.default.svc.cluster.local", Some(&[a(3)]));
    check("10-244-0-4.db.default.svc.cluster.local", None);
    check("2.0.244.10.in-addr.arpa", Some(&[ptr("db-0.db.default.svc.cluster.local")]));
    check(
        "_sql._tcp.db.default.svc.cluster.local",
        Some(&[
            srv(5432, "10-244-0-3.db.default.svc.cluster.local"),
            srv(5432, "db-0.db.default.svc.cluster.local"),
        ]),
    );
    let six = |last: u16| Data::Aaaa([0xfd00, 0, 0, 0, 0, 0, 0, last].into());
    check("six.default.svc.cluster.local", Some(&[six(2), six(3)]));
    check("six-0.six.default.svc.cluster.local", Some(&[six(2)]));
    check("fd00--3.six.default.svc.cluster.local", Some(&[six(3)]));
    check(
        "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa",
        Some(&[ptr("six-0.six.default.svc.cluster.local")]),
    );
    check("fd00--9.any.pod.cluster.local", Some(&[six(9)]));
    check("idle.default.svc.cluster.local", None);
    check("away.default.svc.cluster.local", Some(&[Data::Cname(web.to_owned())]));
    check("10-244-0-9.any.pod.cluster.local", Some(&[a(9)]));
    check("10-244-0-900.any.pod.cluster.local", None);
    check("default.svc.cluster.local", Some(&[]));
    check("cluster.local", Some(&[]));
    check("dns-version.cluster.local", Some(&[Data::Txt("1.1.0".to_owned())]));
    check("nothing.default.svc.cluster.local", None);
}

#[test]
fn whose_names() {
    let zone = example();
    let check = |name: &str, expected| assert_eq!(zone.owns(name), expected, "{name}");
    check("cluster.local", true);
    check("x.cluster.local", true);
    check("xcluster.local", false);
    check("example.org", false);
    check("", false);
    check("7.0.96.10.in-addr.arpa", true);
    check("8.8.8.8.in-addr.arpa", false);
}

/// A question as a client sends it, with EDNS' room if any.
fn question(name: &str, kind: u16, room: Option<u16>) -> Vec<u8> {
    let mut out = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(room.is_some())];
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend(label.as_bytes());
    }
    out.push(0);
    out.extend([kind.to_be_bytes(), [0, 1]].concat());
    if let Some(room) = room {
        out.extend([0, 0, 41]);
        out.extend(room.to_be_bytes());
        out.extend([0; 6]);
    }
    out
}

#[test]
fn what_is_a_question() {
    let query = parse(&question("Web.Example", A, None)).unwrap();
    assert_eq!((query.name.as_str(), query.kind), ("web.example", A));
    let check = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut message = question("web.example", A, None);
        edit(&mut message);
        assert_eq!(parse(&message), None, "{message:?}");
    };
    check(&|message| message[2] |= 0x80);
    check(&|message| message[5] = 2);
    check(&|message| message[12] = 0xc0);
    check(&|message| message.truncate(20));
    check(&|message| message.truncate(message.len() - 1));
    check(&|message| *message.last_mut().unwrap() = 3);
}

#[test]
fn an_answer_on_the_wire() {
    let query = parse(&question("a.b", A, None)).unwrap();
    let record = Record { name: "a.b".to_owned(), data: Data::A([1, 2, 3, 4].into()) };
    let reply = Reply { status: Status::Ok, records: vec![record], authority: Some("b".to_owned()) };
    let expected = [
        &[0xab, 0xcd, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0][..],
        &[1, b'a', 1, b'b', 0, 0, 1, 0, 1],
        &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 1, 2, 3, 4],
    ];
    assert_eq!(query.encode(&reply, true), expected.concat());
}

#[test]
fn long_answers_are_cut_for_udp_only() {
    let record = |last| Record { name: "a.b".to_owned(), data: Data::A([10, 0, 0, last].into()) };
    let reply = Reply { status: Status::Ok, records: (0..250).map(record).collect(), authority: None };
    let check = |room: Option<u16>, udp: bool, most: usize, cut: bool| {
        let answer = parse(&question("a.b", A, room)).unwrap().encode(&reply, udp);
        assert!(answer.len() <= most && answer.len() + 16 > most.min(4000), "{} {most}", answer.len());
        assert_eq!(answer[2] & 2 != 0, cut);
    };
    check(None, true, 512, true);
    check(Some(100), true, 512, true);
    check(Some(9000), true, 1232, true);
    check(None, false, 65535, false);
}

proptest! {
    #[test]
    fn no_answer_does_harm(answer in prop::collection::vec(any::<u8>(), 12..120), count in 0..4u8) {
        let mut answer = answer;
        answer[4..12].copy_from_slice(&[0, 1, 0, count, 0, 1, 0, 0]);
        Answer::read(&answer);
    }

    #[test]
    fn no_message_does_harm(message in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut message = message;
        parse(&message);
        // The header of a question leads further in.
        message.splice(..message.len().min(12), question("a", A, None)[..12].iter().copied());
        if let Some(query) = parse(&message) {
            let reply = Reply { status: Status::NoSuchName, records: Vec::new(), authority: Some("b".into()) };
            prop_assert!(query.encode(&reply, true).len() <= 512);
        }
    }
}

#[test]
fn a_zone_forgets_what_is_gone() {
    let mut zone = example();
    let service = |name: &str| ("default".to_owned(), name.to_owned());
    zone.put(&service("web"), Vec::new());
    assert_eq!(zone.records("web.default.svc.cluster.local"), None);
    assert_eq!(zone.records("_tcp.web.default.svc.cluster.local"), None);
    assert_eq!(zone.records("7.0.96.10.in-addr.arpa"), None);
    assert!(zone.records("default.svc.cluster.local").is_some());
    for name in ["db", "six", "away", "circle", "home"] {
        zone.put(&service(name), Vec::new());
    }
    assert_eq!(zone.records("svc.cluster.local"), None);
    assert!(zone.records("cluster.local").is_some());
}

#[test]
fn name_servers_of_the_node() {
    let text =
        "# nameserver 9.9.9.9\nnameserver 192.0.2.1\nsearch x\nnameserver 10.96.0.10\nnameserver nonsense\n";
    let found = Upstreams::parse(text, &[[10, 96, 0, 10].into()]);
    assert_eq!(found.servers, ["192.0.2.1:53".parse().unwrap()]);
    assert_eq!(found.searches, ["x"]);
}
