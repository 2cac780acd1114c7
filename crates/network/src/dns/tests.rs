//! Tables of names, messages byte by byte, and the resolver over the loopback interface.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use parking_lot::RwLock;
use proptest::prelude::*;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

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
        service("idle", json!({"clusterIP": "None"})),
        service("away", json!({"type": "ExternalName", "externalName": "Web.Default.svc.cluster.local."})),
        service(
            "circle",
            json!({"type": "ExternalName", "externalName": "circle.default.svc.cluster.local"}),
        ),
        service("home", json!({"type": "ExternalName", "externalName": "example.org"})),
    ];
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {
            "namespace": "default", "name": "db-1", "labels": {"kubernetes.io/service-name": "db"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["10.244.0.2"], "hostname": "db-0"},
            {"addresses": ["10.244.0.3"], "conditions": {"ready": true}},
            {"addresses": ["10.244.0.4"], "conditions": {"ready": false}},
        ],
    }))
    .unwrap();
    let mut zone = Zone::new("Cluster.Local.");
    for service in &services {
        let name = service.metadata.name.clone().unwrap();
        let slices = [&slice].into_iter().filter(|_| name == "db");
        let records = records(service, slices, zone.domain());
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

struct Reading {
    code: u8,
    count: u8,
    text: Vec<u8>,
}

fn read(answer: &[u8]) -> Reading {
    assert_eq!(answer[..2], [0xab, 0xcd]);
    Reading { code: answer[3] & 15, count: answer[7], text: answer.to_vec() }
}

async fn ask(server: SocketAddr, name: &str, kind: u16) -> Reading {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&question(name, kind, None), server).await.unwrap();
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).await.unwrap();
    let udp = read(&buffer[..length]);
    let mut stream = TcpStream::connect(server).await.unwrap();
    let question = question(name, kind, None);
    stream.write_all(&[&(question.len() as u16).to_be_bytes()[..], &question].concat()).await.unwrap();
    let mut buffer = vec![0; usize::from(stream.read_u16().await.unwrap())];
    stream.read_exact(&mut buffer).await.unwrap();
    assert_eq!(read(&buffer).text, udp.text, "TCP and UDP say the same about {name}");
    udp
}

#[tokio::test]
async fn the_resolver_answers() {
    let localhost = Ipv4Addr::LOCALHOST;
    let pods = "10.244.0.0/16".parse().unwrap();
    let zone = Arc::new(RwLock::new(example()));
    let others = name_server().await;
    let upstreams = Upstreams { servers: vec![others.address], searches: vec!["node.example".to_owned()] };
    let resolver = Resolver::bind((localhost, 0), pods, zone, upstreams).await.unwrap();
    let server = SocketAddr::from((localhost, resolver.port().unwrap()));
    let task = tokio::spawn(resolver.serve());
    for (name, kind, code, count, ending) in [
        ("WEB.default.svc.cluster.local", A, 0, 1, &[10, 96, 0, 7][..]),
        ("web.default.svc.cluster.local", SRV, 0, 0, &[]),
        ("db.default.svc.cluster.local", A, 0, 2, &[10, 244, 0, 3]),
        ("db.default.svc.cluster.local", AAAA, 0, 0, &[]),
        ("_http._tcp.web.default.svc.cluster.local", SRV, 0, 1, &[]),
        ("7.0.96.10.in-addr.arpa", PTR, 0, 1, b"\x07cluster\x05local\0"),
        ("nothing.default.svc.cluster.local", A, 3, 0, &[]),
        ("away.default.svc.cluster.local", A, 0, 2, &[10, 96, 0, 7]),
        ("circle.default.svc.cluster.local", A, 2, 0, &[]),
        // Names of others, and ours that lead there.
        ("example.org", A, 0, 2, &[192, 0, 2, 5]),
        ("example.org", AAAA, 0, 1, &[]),
        ("nowhere.example", A, 3, 0, &[]),
        ("home.default.svc.cluster.local", A, 0, 3, &[192, 0, 2, 5]),
        // The first name of a search path, with the answer to the one that exists.
        ("example.org.default.svc.cluster.local", A, 0, 3, &[192, 0, 2, 5]),
        ("example.org.default.svc.cluster.local", AAAA, 0, 2, &[]),
        ("web.default.other.svc.cluster.local", A, 0, 2, &[10, 96, 0, 7]),
        ("host.db.default.svc.cluster.local", A, 3, 0, &[]),
        ("no.where.default.svc.cluster.local", A, 3, 0, &[]),
        ("example.org.default.svc.cluster.local", SRV, 3, 0, &[]),
    ] {
        let answer = ask(server, name, kind).await;
        assert_eq!((answer.code, answer.count), (code, count), "{name}");
        assert!(answer.text.ends_with(ending), "{name}: {:?}", answer.text);
    }
    // Everything was asked for over UDP and TCP, and then once more: each was answered by others only once.
    let asked = others.asked.lock().clone();
    ask(server, "example.org", A).await;
    assert_eq!(*others.asked.lock(), asked, "answers are kept");
    assert_eq!(asked.iter().filter(|name| *name == "nowhere.example").count(), 2, "{asked:?}");
    task.abort();
}

/// Knows `example.org`, an alias of `www.example.org`, for a minute.
struct NameServer {
    address: SocketAddr,
    asked: Arc<parking_lot::Mutex<Vec<String>>>,
}

async fn name_server() -> NameServer {
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = udp.local_addr().unwrap();
    let tcp = tokio::net::TcpListener::bind(address).await.unwrap();
    let asked = Arc::<parking_lot::Mutex<Vec<String>>>::default();
    let noted = asked.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        loop {
            tokio::select! {
                received = udp.recv_from(&mut buffer) => {
                    let (length, peer) = received.unwrap();
                    udp.send_to(&outside_answer(&buffer[..length], &noted), peer).await.unwrap();
                }
                accepted = tcp.accept() => {
                    let (mut stream, _) = accepted.unwrap();
                    let mut question = vec![0; usize::from(stream.read_u16().await.unwrap())];
                    stream.read_exact(&mut question).await.unwrap();
                    let answer = outside_answer(&question, &noted);
                    stream.write_u16(answer.len() as u16).await.unwrap();
                    stream.write_all(&answer).await.unwrap();
                }
            }
        }
    });
    NameServer { address, asked }
}

fn outside_answer(question: &[u8], noted: &parking_lot::Mutex<Vec<String>>) -> Vec<u8> {
    let query = parse(question).unwrap();
    noted.lock().push(query.name.clone());
    let record = |name: &str, data| Record { name: name.to_owned(), data };
    let alias = record("example.org", Data::Cname("www.example.org".to_owned()));
    let address = record("www.example.org", Data::A([192, 0, 2, 5].into()));
    let mut records = vec![alias, address];
    records.retain(|record| query.wants(&record.data));
    let (status, records) = match query.name.as_str() {
        "example.org" => (Status::Ok, records),
        _ => (Status::NoSuchName, Vec::new()),
    };
    query.encode(&Reply { status, records, authority: Some("example".to_owned()) }, true)
}

#[test]
fn answers_are_kept_as_long_as_they_say() {
    let noted = parking_lot::Mutex::default();
    let asked = question("example.org", A, None);
    let answer = outside_answer(&asked, &noted);
    let read = Answer::read(&answer).unwrap();
    assert_eq!((read.code, read.lifetime, read.records.len()), (0, Some(5), 2));
    let (cache, now) = (Cache::default(), Instant::now());
    cache.put(&asked, true, &answer, now);
    let again = [&[9, 9], &asked[2..]].concat();
    let kept = cache.get(&again, true, now + Duration::from_secs(2)).unwrap();
    assert_eq!(kept[..2], [9, 9], "with the number of the new question");
    assert_eq!(Answer::read(&kept).unwrap().lifetime, Some(3));
    assert_eq!(cache.get(&again, true, now + Duration::from_secs(5)), None);
    assert_eq!(cache.get(&again, false, now), None, "a cut answer is not for TCP");
    let denied = outside_answer(&question("nowhere", A, None), &noted);
    assert_eq!(Answer::read(&denied).unwrap().lifetime, Some(5));
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
    for name in ["db", "away", "circle", "home"] {
        zone.put(&service(name), Vec::new());
    }
    assert_eq!(zone.records("svc.cluster.local"), None);
    assert!(zone.records("cluster.local").is_some());
}

#[test]
fn name_servers_of_the_node() {
    let text =
        "# nameserver 9.9.9.9\nnameserver 192.0.2.1\nsearch x\nnameserver 10.96.0.10\nnameserver nonsense\n";
    let found = Upstreams::parse(text, [10, 96, 0, 10].into());
    assert_eq!(found.servers, ["192.0.2.1:53".parse().unwrap()]);
    assert_eq!(found.searches, ["x"]);
}
