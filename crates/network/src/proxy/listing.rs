//! What `nft list table` says, as a [`Ruleset`]: how an agent that starts learns what a former run of it has made.
//!
//! Only what differs is changed then, so that counters go on and clients stay where they are. nft prints rules in a
//! form of its own; a rule that it prints otherwise than we write it counts as changed and is written anew, in the
//! same transaction as everything else: that costs a counter, never a connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::{Chain, Frontend, Map, Protocol, Ruleset, StaleFlow};

/// A table as nft prints it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listing {
    maps: BTreeMap<String, ListedMap>,
    chains: BTreeMap<String, Chain>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct ListedMap {
    is_set: bool,
    /// `type …` and what else is said about it, in one line.
    header: String,
    elements: BTreeMap<String, String>,
}

/// Filled by the kernel itself.
const DYNAMIC: &str = "affinity";

impl Listing {
    pub fn parse(text: &str) -> Listing {
        let mut listing = Listing::default();
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let Some(head) = line.strip_suffix('{') else { continue };
            let mut words = head.split_whitespace();
            let (Some(kind), Some(name)) = (words.next(), words.next()) else { continue };
            let mut body = lines.by_ref().take_while(|line| *line != "}");
            match kind {
                "map" | "set" => {
                    let map = ListedMap::parse(kind == "set", &mut body, name != DYNAMIC);
                    listing.maps.insert(name.to_owned(), map);
                }
                "chain" => drop(listing.chains.insert(name.to_owned(), body.map(canonical).collect())),
                _ => {}
            }
        }
        listing
    }

    pub fn is_empty(&self) -> bool {
        *self == Listing::default()
    }

    /// The table as if we had written it, to be compared with the wanted one. `None` if its maps have other types
    /// than ours: then another version of us made them, and the table is to be replaced.
    pub fn into_ruleset(self, wanted: &Ruleset) -> Option<Ruleset> {
        let mut rules = Ruleset::new(wanted.family, &wanted.table);
        for (name, listed) in self.maps {
            let mut map = match wanted.maps.get(&name) {
                Some(map) if listed.header != header(map) || listed.is_set != (map.keyword() == "set") => {
                    return None;
                }
                Some(map) => Map { elements: BTreeMap::new(), ..*map },
                // It is to go, whatever is in it.
                None => Map { value_type: if listed.is_set { "" } else { "verdict" }, ..Map::default() },
            };
            map.elements = listed.elements;
            rules.maps.insert(name, map);
        }
        for (name, listed) in self.chains {
            let same = wanted.chains.get(&name).filter(|rules| {
                listed.iter().eq(rules.iter().map(|r| canonical(r)).collect::<Vec<_>>().iter())
            });
            rules.chains.insert(name, same.cloned().unwrap_or(listed));
        }
        Some(rules)
    }
}

impl ListedMap {
    fn parse<'a>(is_set: bool, lines: &mut impl Iterator<Item = &'a str>, keep: bool) -> ListedMap {
        let mut map = ListedMap { is_set, ..ListedMap::default() };
        let mut inside = false;
        for line in lines {
            let elements = match line.strip_prefix("elements = {") {
                Some(rest) => rest,
                None if inside => line,
                None => {
                    map.header.push_str(line);
                    map.header.push_str("; ");
                    continue;
                }
            };
            let last = elements.trim_end().ends_with('}');
            if keep {
                let elements = elements.trim_end().trim_end_matches('}').split(',').map(str::trim);
                let is_range = map.header.contains("flags interval");
                let protocol_at = protocol_at(&map.header);
                let elements = elements.filter(|element| !element.is_empty());
                map.elements.extend(elements.map(|text| element(text, is_range, protocol_at)));
            }
            inside = !last;
        }
        map
    }
}

/// Which part of a map's keys is a protocol.
fn protocol_at(header: &str) -> Option<usize> {
    let types = header.strip_prefix("type ")?;
    let keys = types.split([':', ';']).next().unwrap_or_default();
    keys.split('.').position(|part| part.trim() == "inet_proto")
}

/// Ranges of one address are printed as the address; we write all of them as ranges. Protocols are listed by number and
/// written by name.
fn element(text: &str, is_range: bool, protocol_at: Option<usize>) -> (String, String) {
    let (key, value) = text.split_once(" : ").unwrap_or((text, ""));
    let mut named = String::with_capacity(key.len() + 3);
    for (index, part) in key.trim().split(" . ").enumerate() {
        if index > 0 {
            named.push_str(" . ");
        }
        named.push_str(match part {
            "6" if protocol_at == Some(index) => "tcp",
            "17" if protocol_at == Some(index) => "udp",
            "132" if protocol_at == Some(index) => "sctp",
            part => part,
        });
    }
    if is_range && !named.contains('/') {
        let is_v4 = named.rsplit(" . ").next().is_some_and(|last| last.contains('.'));
        named.push_str(if is_v4 { "/32" } else { "/128" });
    }
    (named, value.trim().to_owned())
}

fn header(map: &Map) -> String {
    let arrow = if map.value_type.is_empty() { "" } else { " : " };
    let options = map.options.split(';').map(str::trim).filter(|option| !option.is_empty());
    let all = std::iter::once(format!("type {}{arrow}{}", map.key_type, map.value_type))
        .chain(options.map(str::to_owned));
    all.map(|line| line + "; ").collect()
}

/// What we write, and how nft prints it.
const PRINTED_OTHERWISE: [(&str, &str); 7] = [
    ("meta l4proto { tcp, udp, sctp }", "meta l4proto { 6, 17, 132 }"),
    ("& 0xfffe0000 != 0x4d380000", "!= 0x4d380000/15"),
    ("& 0xffff0000 == 0x4d380000", "0x4d380000/16"),
    ("& 0xffff0000 == 0x4d390000", "0x4d390000/16"),
    ("meta l4proto tcp reject with tcp reset", "reject with tcp reset"),
    ("reject with icmp port-unreachable", "reject"),
    ("reject with icmpv6 port-unreachable", "reject"),
];

/// One form for what nft and we write differently.
fn canonical(rule: &str) -> String {
    let rule = PRINTED_OTHERWISE.iter().fold(rule.to_owned(), |rule, (ours, nfts)| rule.replace(ours, nfts));
    let mut before = "";
    let mut words = Vec::new();
    for word in rule.split_whitespace() {
        words.push(match (before, word) {
            (_, "dstnat;") => "-100;".to_owned(),
            (_, "srcnat;") => "100;".to_owned(),
            (_, "filter;") => "0;".to_owned(),
            (_, "raw;") => "-300;".to_owned(),
            ("timeout", time) => seconds(time).map_or(time.to_owned(), |seconds| format!("{seconds}s")),
            // Large numbers of ours are marks, written in hexadecimal; nft prints some of them otherwise.
            (_, number) => match number.parse::<u32>() {
                Ok(number) if number > 0xffff => format!("{number:#010x}"),
                _ => number.to_owned(),
            },
        });
        before = word;
    }
    words.join(" ")
}

/// `3h`, `1d1h1m1s`, `10800s`.
fn seconds(time: &str) -> Option<u64> {
    let (mut total, mut number) = (0, 0);
    for letter in time.chars() {
        let unit = match letter {
            'd' => 86_400,
            'h' => 3600,
            'm' => 60,
            's' => 1,
            digit => {
                number = number * 10 + u64::from(digit.to_digit(10)?);
                continue;
            }
        };
        total += number * unit;
        number = 0;
    }
    (number == 0).then_some(total)
}

/// UDP flows to endpoints that the first table leads to and the second does not, and to frontends that had no
/// endpoint before: they may have changed while nobody looked.
pub fn stale_flows_between(from: &Ruleset, to: &Ruleset) -> Vec<StaleFlow> {
    let (before, after) = (udp_endpoints(from), udp_endpoints(to));
    let mut stale = BTreeSet::new();
    for (frontend, endpoints) in &before {
        let now = after.get(frontend);
        let gone = endpoints.iter().filter(|endpoint| now.is_none_or(|now| !now.contains(endpoint)));
        stale.extend(gone.map(|endpoint| StaleFlow { frontend: *frontend, endpoint: Some(endpoint.ip()) }));
    }
    let new = after.keys().filter(|frontend| !before.contains_key(frontend));
    stale.extend(new.map(|frontend| StaleFlow { frontend: *frontend, endpoint: None }));
    stale.into_iter().collect()
}

fn udp_endpoints(rules: &Ruleset) -> BTreeMap<Frontend, BTreeSet<SocketAddr>> {
    let mut found: BTreeMap<Frontend, BTreeSet<SocketAddr>> = BTreeMap::new();
    let maps = rules.maps.iter().filter(|(name, _)| name.contains("endpoints"));
    for (key, value) in maps.flat_map(|(_, map)| &map.elements) {
        if let (Some(frontend), Some(endpoint)) = (udp_frontend(key), endpoint(value)) {
            found.entry(frontend).or_default().insert(endpoint);
        }
    }
    found
}

/// `ADDRESS . udp . PORT . MARK` or `udp . PORT . MARK`.
fn udp_frontend(key: &str) -> Option<Frontend> {
    let parts: Vec<&str> = key.split(" . ").collect();
    match parts.as_slice() {
        [address, "udp", port, _] => {
            Some(Frontend::Address(address.parse().ok()?, Protocol::Udp, port.parse().ok()?))
        }
        ["udp", port, _] => Some(Frontend::NodePort(Protocol::Udp, port.parse().ok()?)),
        _ => None,
    }
}

fn endpoint(value: &str) -> Option<SocketAddr> {
    let (address, port) = value.split_once(" . ")?;
    Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::proxy::diff;

    const LISTED: &str = "table ip minik8s-test {
	map services {
		type ipv4_addr . inet_proto . inet_service : verdict
		elements = { 10.96.0.1 . tcp . 80 : goto address-random-2,
			     10.96.0.9 . udp . 53 : goto refuse }
	}

	set hairpin {
		type ipv4_addr . ipv4_addr
	}

	map affinity {
		type ipv4_addr . ipv4_addr . inet_proto . inet_service : mark
		size 262144
		flags dynamic,timeout
		timeout 3h
		elements = { 10.0.0.1 . 10.96.0.1 . tcp . 80 timeout 1m expires 59s : 0x4d380001 }
	}

	map old {
		type mark : mark
	}

	chain prerouting {
		type nat hook prerouting priority dstnat; policy accept;
		jump inside
	}

	chain turns {
		meta mark set numgen inc mod 2 offset 1295515648
	}
}
";

    fn map(key_type: &'static str, value_type: &'static str, options: &'static str) -> Map {
        Map { key_type, value_type, options, elements: BTreeMap::new() }
    }

    fn wanted() -> Ruleset {
        let mut rules = Ruleset { table: "minik8s-test".to_owned(), ..Ruleset::default() };
        let mut services = map("ipv4_addr . inet_proto . inet_service", "verdict", "");
        services.elements.insert("10.96.0.1 . tcp . 80".into(), "goto address-random-2".into());
        rules.maps.insert("services".into(), services);
        rules.maps.insert("hairpin".into(), map("ipv4_addr . ipv4_addr", "", ""));
        let sticky = "ipv4_addr . ipv4_addr . inet_proto . inet_service";
        let options = "size 262144; flags dynamic,timeout; timeout 3h;";
        rules.maps.insert("affinity".into(), map(sticky, "mark", options));
        let hook = "type nat hook prerouting priority -100; policy accept;";
        rules.chains.insert("prerouting".into(), vec![hook.into(), "jump inside".into()]);
        let turns = "meta mark set numgen inc mod 2 offset 0x4d380000";
        rules.chains.insert("turns".into(), vec![turns.into()]);
        rules
    }

    #[test]
    fn only_what_differs_is_changed() {
        let wanted = wanted();
        let found = Listing::parse(LISTED).into_ruleset(&wanted).unwrap();
        let change = diff(&found, &wanted).unwrap();
        assert_eq!(
            change.to_string(),
            "delete element ip minik8s-test services {\n  10.96.0.9 . udp . 53,\n}\ndelete map ip minik8s-test old\n"
        );
    }

    #[test]
    fn protocols_by_number() {
        let check = |header: &str, text: &str, expected: &str| {
            assert_eq!(element(text, false, protocol_at(header)).0, expected, "{header} {text}");
        };
        check(
            "type ipv4_addr . inet_proto . inet_service : verdict; ",
            "10.0.0.1 . 6 . 6 : accept",
            "10.0.0.1 . tcp . 6",
        );
        check("type inet_proto . inet_service : verdict; ", "17 . 17 : accept", "udp . 17");
        check("type inet_proto . inet_service : verdict; ", "tcp . 80 : accept", "tcp . 80");
        check("type inet_proto . inet_service : verdict; ", "132 . 132 : accept", "sctp . 132");
        check("type ipv4_addr . ipv4_addr; ", "10.0.0.1 . 10.0.0.1", "10.0.0.1 . 10.0.0.1");
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("10800s", Some(10800)),
            ("3h", Some(10800)),
            ("1d1h1m1s", Some(90061)),
            ("3x", None),
            ("3", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn other_types_are_not_ours() {
        let mut wanted = wanted();
        wanted.maps.get_mut("hairpin").unwrap().key_type = "mark";
        assert_eq!(Listing::parse(LISTED).into_ruleset(&wanted), None);
    }

    #[test]
    fn nothing_is_nothing() {
        assert!(Listing::parse("table ip minik8s-test {\n}\n").is_empty());
        assert!(!Listing::parse(LISTED).is_empty());
    }

    #[test]
    fn flows_that_went_stale_unseen() {
        let rules = |elements: &[(&str, &str)]| {
            let mut rules = Ruleset::default();
            let mut endpoints = Map::default();
            endpoints
                .elements
                .extend(elements.iter().map(|(key, value)| (key.to_string(), value.to_string())));
            rules.maps.insert("address-endpoints-1".into(), endpoints);
            rules
        };
        let address = Frontend::Address([10, 96, 0, 1].into(), Protocol::Udp, 53);
        let check = |from: &[(&str, &str)], to: &[(&str, &str)], expected: &[Option<[u8; 4]>]| {
            let expected: Vec<_> = expected
                .iter()
                .map(|endpoint| StaleFlow { frontend: address, endpoint: endpoint.map(IpAddr::from) })
                .collect();
            assert_eq!(stale_flows_between(&rules(from), &rules(to)), expected, "{from:?} {to:?}");
        };
        let one = ("10.96.0.1 . udp . 53 . 0x4d380000", "10.244.0.2 . 53");
        let other = ("10.96.0.1 . udp . 53 . 0x4d380000", "10.244.0.3 . 53");
        let moved = ("10.96.0.1 . udp . 53 . 0x4d380001", "10.244.0.2 . 53");
        check(&[one], &[one], &[]);
        check(&[one], &[moved], &[]);
        check(&[one], &[other], &[Some([10, 244, 0, 2])]);
        check(&[one], &[], &[Some([10, 244, 0, 2])]);
        check(&[], &[one], &[None]);
        check(&[("10.96.0.1 . tcp . 53 . 0x4d380000", "10.244.0.2 . 53")], &[], &[]);
    }
}
