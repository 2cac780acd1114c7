//! Foreign bytes against the readers of DNS messages: see `minik8s_fuzz`.

use minik8s_fuzz::{Corpus, fuzz};

use super::*;

#[test]
fn fuzz_dns_messages() {
    let zone = example();
    let asked = question("web.default.svc.cluster.local", A, None);
    let service = question("_sql._tcp.db.default.svc.cluster.local", SRV, None);
    let extended = question("x.y", AAAA, Some(4096));
    let answer = |message: &[u8]| {
        let query = parse(message).unwrap();
        let records = zone.records(&query.name).unwrap_or_default();
        let authority = Some(zone.domain().to_owned());
        query.encode(&Reply { status: Status::Ok, records, authority }, true)
    };
    let (addresses, services) = (answer(&asked), answer(&service));
    let inputs: [&[u8]; 5] = [&asked, &service, &extended, &addresses, &services];
    // Pointers to before, to themselves, and to nowhere.
    let words = ["\u{0}", "\u{3}www", "web", "cluster", "\u{3f}"];
    fuzz("DNS messages", 1, Corpus { inputs: &inputs, words: &words }, |input| {
        let _ = Answer::read(input);
        let Some(query) = parse(input) else { return };
        let records = zone.records(&query.name).unwrap_or_default();
        for udp in [false, true] {
            let authority = Some("cluster.local".to_owned());
            let reply = Reply { status: Status::Ok, records: records.clone(), authority };
            let sent = query.encode(&reply, udp);
            assert!(sent.len() <= if udp { 1232 } else { usize::from(u16::MAX) }, "{} bytes", sent.len());
            assert_eq!(sent[..2], input[..2], "an answer bears the question's id");
        }
    });
}
