//! The resolver over the loopback interface, with another name server behind it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_metrics::Text;
use parking_lot::RwLock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio_util::task::AbortOnDropHandle;

use super::{A, AAAA, PTR, SRV, example, question};
use crate::dns::{Answer, Cache, Data, Record, Reply, Resolver, Status, Upstreams, Zone, parse};
use crate::metrics::DnsMetrics;

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

/// The resolver of the example, with others' name servers behind it. Ended when dropped.
struct Running {
    server: SocketAddr,
    metrics: Arc<DnsMetrics>,
    _task: AbortOnDropHandle<()>,
}

async fn run(upstreams: Upstreams) -> Running {
    run_with(Arc::new(RwLock::new(example())), upstreams).await
}

async fn run_with(zone: Arc<RwLock<Zone>>, upstreams: Upstreams) -> Running {
    let localhost = IpAddr::from(Ipv4Addr::LOCALHOST);
    let pods = "10.244.0.0/16".parse().unwrap();
    let metrics = Arc::new(DnsMetrics::new("cluster.local"));
    let resolver = Resolver::bind((&[localhost], 0), pods, zone, upstreams, metrics.clone()).await.unwrap();
    let server = resolver.endpoints().unwrap()[0];
    Running { server, metrics, _task: AbortOnDropHandle::new(tokio::spawn(resolver.serve())) }
}

/// An agent that has just started refuses nobody: who asks is answered as soon as the Services are known.
#[tokio::test]
async fn dns_before_the_services_are_known_refuses_nobody() {
    let zone = Arc::new(RwLock::new(Zone::new("cluster.local")));
    let running = run_with(zone.clone(), Upstreams::default()).await;
    let asked = ask(running.server, "web.default.svc.cluster.local", A);
    tokio::pin!(asked);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut asked).await;
    assert!(early.is_err(), "answered before anything was known");
    let web = Record {
        name: "web.default.svc.cluster.local".to_owned(),
        data: Data::A(Ipv4Addr::new(10, 96, 0, 7)),
    };
    zone.write().put(&("default".to_owned(), "web".to_owned()), vec![web]);
    zone.write().set_complete();
    let answer = asked.await;
    assert_eq!((answer.code, answer.count), (0, 1));
}

/// A name without records of that type, and no such name: both say how long that may be believed.
#[tokio::test]
async fn no_data_and_no_name() {
    let running = run(Upstreams::default()).await;
    let check = async |name: &str, kind: u16, code: u8, count: u8| {
        let name = format!("{name}.cluster.local");
        let answer = ask(running.server, &name, kind).await;
        assert_eq!((answer.code, answer.count), (code, count), "{name} {kind}");
        let (authorities, is_authoritative) = (answer.text[9], answer.text[2] & 4 != 0);
        assert!(is_authoritative, "{name} {kind}");
        assert_eq!(authorities, u8::from(count == 0), "{name} {kind}");
        if count == 0 {
            // The SOA's last number.
            assert!(answer.text.ends_with(&[0, 0, 0, 5]), "{name} {kind}: {:?}", answer.text);
        }
    };
    for (name, four, six) in [
        ("web.default.svc", 1, 1),
        ("db.default.svc", 2, 0),
        ("db-0.db.default.svc", 1, 0),
        ("six.default.svc", 0, 2),
        ("six-0.six.default.svc", 0, 1),
        ("10-244-0-9.any.pod", 1, 0),
        ("fd00--9.any.pod", 0, 1),
        // Names that are there because others are below them.
        ("default.svc", 0, 0),
        ("_tcp.web.default.svc", 0, 0),
    ] {
        check(name, A, 0, four).await;
        check(name, AAAA, 0, six).await;
    }
    for name in ["nothing.default.svc", "db-9.db.default.svc", "six-9.six.default.svc", "nothing.any.pod"] {
        for kind in [A, AAAA, SRV] {
            check(name, kind, 3, 0).await;
        }
    }
}

#[tokio::test]
async fn the_resolver_answers() {
    let others = name_server().await;
    let running =
        run(Upstreams { servers: vec![others.address], searches: vec!["node.example".to_owned()] }).await;
    let server = running.server;
    for (name, kind, code, count, ending) in [
        ("WEB.default.svc.cluster.local", A, 0, 1, &[10, 96, 0, 7][..]),
        ("web.default.svc.cluster.local", AAAA, 0, 1, &[0, 0, 0, 0, 0, 0, 0, 7]),
        ("six.default.svc.cluster.local", AAAA, 0, 2, &[0, 0, 0, 0, 0, 0, 0, 3]),
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
    let mut page = Text::default();
    running.metrics.write(&mut page);
    let page = page.finish();
    for line in [
        // `web`, `db`, `nothing`, `away`, `circle`, `home`, `web.default.other`, `host.db`, `no.where`, and `example.org`
        // below the cluster's domain.
        "coredns_dns_requests_total{server=\"dns://:53\",zone=\"cluster.local.\",proto=\"tcp\",family=\"1\",type=\"A\"} 10",
        // `example.org` twice, and `nowhere.example`.
        "coredns_dns_requests_total{server=\"dns://:53\",zone=\".\",proto=\"udp\",family=\"1\",type=\"A\"} 3",
        "coredns_dns_responses_total{server=\"dns://:53\",zone=\".\",rcode=\"NXDOMAIN\"} 2",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    let forwarded = format!(
        "coredns_proxy_request_duration_seconds_count{{proxy_name=\"forward\",to=\"{}\"",
        others.address
    );
    assert!(page.contains(&forwarded), "{page}");
    assert!(
        !page.contains("coredns_cache_hits_total{server=\"dns://:53\",type=\"success\",zones=\".\"} 0"),
        "{page}"
    );
}

/// Knows `example.org`, an alias of `www.example.org`, for a minute.
struct NameServer {
    address: SocketAddr,
    asked: Arc<parking_lot::Mutex<Vec<String>>>,
}

async fn name_server() -> NameServer {
    // A port that nobody has, neither of UDP nor of TCP.
    let (udp, tcp, address) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = udp.local_addr().unwrap();
        match tokio::net::TcpListener::bind(address).await {
            Ok(tcp) => break (udp, tcp, address),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{error}"),
        }
    };
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

async fn ask_udp(from: &str, server: SocketAddr, name: &str) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((from, 0)).await.unwrap();
    socket.send_to(&question(name, A, None), server).await.unwrap();
    let mut buffer = vec![0; 512];
    let length = tokio::time::timeout(Duration::from_secs(5), socket.recv(&mut buffer)).await.ok()?.unwrap();
    buffer.truncate(length);
    Some(buffer)
}

/// A pod that opens as many connections as it can has them closed; its own datagrams and others' connections are served.
#[tokio::test]
async fn dns_with_512_idle_connections_answers_others() {
    let running = run(Upstreams::default()).await;
    let mut idle = Vec::new();
    for _ in 0..512 {
        idle.push(TcpStream::connect(running.server).await.unwrap());
    }
    let name = "web.default.svc.cluster.local";
    assert!(ask_udp("127.0.0.1", running.server, name).await.is_some(), "the same client over UDP");
    assert!(ask_udp("127.0.0.2", running.server, name).await.is_some(), "another client over UDP");
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut stream = socket.connect(running.server).await.unwrap();
    let question = question(name, A, None);
    stream.write_all(&[&(question.len() as u16).to_be_bytes()[..], &question].concat()).await.unwrap();
    let answered = tokio::time::timeout(Duration::from_secs(5), stream.read_u16()).await;
    assert!(answered.is_ok_and(|length| length.is_ok()), "another client over TCP");
    let mut open = 0;
    for mut stream in idle {
        let closed = tokio::time::timeout(Duration::from_millis(10), stream.read(&mut [0])).await;
        open += usize::from(closed.is_err());
    }
    assert!((1..=16).contains(&open), "{open} connections of one client are open");
}

/// Questions that nobody answers pile up for their client alone.
#[tokio::test]
async fn dns_with_a_silent_upstream_answers_its_own_names() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let running = run(Upstreams { servers: vec![silent.local_addr().unwrap()], searches: Vec::new() }).await;
    let flood = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for n in 0..2000 {
        flood.send_to(&question(&format!("n{n}.example"), A, None), running.server).await.unwrap();
        if n % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let begun = Instant::now();
    assert!(ask_udp("127.0.0.1", running.server, "web.default.svc.cluster.local").await.is_some());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    // Another client's questions still go out.
    let other = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    other.send_to(&question("other.example", A, None), running.server).await.unwrap();
    let seen = async {
        let mut buffer = [0; 512];
        loop {
            let (length, _) = silent.recv_from(&mut buffer).await.unwrap();
            if parse(&buffer[..length]).unwrap().name == "other.example" {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(1), seen).await.expect("forwarded");
}

/// What an attacker sends in a name server's place is not believed; what that says is.
#[tokio::test]
async fn dns_refuses_spoofed_answers() {
    let upstream = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let running =
        run(Upstreams { servers: vec![upstream.local_addr().unwrap()], searches: Vec::new() }).await;
    let served = tokio::spawn(async move {
        let mut asked = Vec::new();
        for _ in 0..4 {
            let mut buffer = [0; 512];
            let (length, peer) = upstream.recv_from(&mut buffer).await.unwrap();
            let question = &buffer[..length];
            asked.push((question[..2].to_vec(), peer.port()));
            let with = |address: [u8; 4], change: &dyn Fn(&mut Vec<u8>)| {
                let query = parse(question).unwrap();
                let record = Record { name: query.name.clone(), data: Data::A(address.into()) };
                let mut answer =
                    query.encode(&Reply { status: Status::Ok, records: vec![record], authority: None }, true);
                change(&mut answer);
                answer
            };
            let spoofed = [6, 6, 6, 6];
            for answer in [
                with(spoofed, &|answer| answer[0] ^= 0x55),
                with(spoofed, &|answer| answer[..2].copy_from_slice(&[0xab, 0xcd])),
                with(spoofed, &|answer| answer[13] ^= 0x20),
                with(spoofed, &|answer| answer[14] = b'x'),
                with([192, 0, 2, 5], &|_| ()),
            ] {
                upstream.send_to(&answer, peer).await.unwrap();
            }
        }
        asked
    });
    for n in 0..4 {
        let answer = ask_udp("127.0.0.1", running.server, &format!("Name{n}.example")).await.unwrap();
        assert_eq!(answer[..2], [0xab, 0xcd], "the client's own number");
        assert!(answer.ends_with(&[192, 0, 2, 5]), "{answer:?}");
    }
    let asked = served.await.unwrap();
    let different: std::collections::BTreeSet<_> = asked.iter().collect();
    assert_eq!(different.len(), 4, "numbers and ports are drawn anew: {asked:?}");
    assert!(
        asked.iter().filter(|(id, _)| id[..] == [0xab, 0xcd]).count() < 2,
        "the client's number is not used"
    );
}
