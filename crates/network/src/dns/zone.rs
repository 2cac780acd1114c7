//! The cluster's domain as a value, changed Service by Service.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::sync::watch;

/// Of the specification "Kubernetes DNS-Based Service Discovery".
const VERSION: &str = "1.1.0";

/// Names in lower case, without the dot at their end. A name without records exists if there are names below.
#[derive(Debug, Clone, Default)]
pub struct Zone {
    domain: String,
    names: HashMap<String, Name>,
    services: BTreeMap<(String, String), Vec<Record>>,
    /// Whether all Services were seen: before, nobody can say that a name does not exist.
    complete: watch::Sender<bool>,
}

#[derive(Debug, Clone, Default)]
struct Name {
    /// How often each was added.
    data: BTreeMap<Data, usize>,
    /// How many names there are one label below.
    below: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(String),
    Ptr(String),
    Srv { port: u16, target: String },
    Txt(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub data: Data,
}

impl Zone {
    pub fn new(domain: &str) -> Zone {
        let domain = domain.trim_end_matches('.').to_ascii_lowercase();
        let mut zone = Zone { domain, ..Zone::default() };
        zone.names.insert(zone.domain.clone(), Name { below: 1, ..Name::default() });
        zone.add(&Record {
            name: format!("dns-version.{}", zone.domain),
            data: Data::Txt(VERSION.to_owned()),
        });
        zone
    }

    /// The records of a Service take the place of those it had. One that is gone has none.
    pub fn put(&mut self, service: &(String, String), records: Vec<Record>) {
        for record in &records {
            self.add(record);
        }
        let old = match records.is_empty() {
            true => self.services.remove(service),
            false => self.services.insert(service.clone(), records),
        };
        for record in old.into_iter().flatten() {
            self.remove(&record);
        }
    }

    pub fn set_complete(&mut self) {
        self.complete.send_replace(true);
    }

    pub fn is_complete(&self) -> bool {
        *self.complete.borrow()
    }

    /// Says when it is complete.
    pub fn completion(&self) -> watch::Receiver<bool> {
        self.complete.subscribe()
    }

    /// All records of a name; `None` if there is no such name.
    pub fn records(&self, name: &str) -> Option<Vec<Record>> {
        if let Some(found) = self.names.get(name) {
            let record = |data: &Data| Record { name: name.to_owned(), data: data.clone() };
            return Some(found.data.keys().map(record).collect());
        }
        let data = Data::from(self.pod_address(name)?);
        Some(vec![Record { name: name.to_owned(), data }])
    }

    /// Whether nobody else knows the name better.
    pub fn owns(&self, name: &str) -> bool {
        let below = name.strip_suffix(&self.domain);
        below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')) || self.names.contains_key(name)
    }

    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// `10-244-0-7.NAMESPACE.pod.DOMAIN` says itself what its address is.
    fn pod_address(&self, name: &str) -> Option<IpAddr> {
        let rest = name.strip_suffix(&self.domain)?.strip_suffix(".pod.")?;
        let (dashed, namespace) = rest.split_once('.')?;
        let plain = !namespace.is_empty() && !namespace.contains('.');
        let address = dashed.replace('-', ".").parse().map(IpAddr::V4);
        let address = address.or_else(|_| dashed.replace('-', ":").parse().map(IpAddr::V6));
        address.ok().filter(|_| plain)
    }

    fn add(&mut self, record: &Record) {
        let mut name = record.name.as_str();
        let mut is_new = !self.names.contains_key(name);
        let entry = self.names.entry(name.to_owned()).or_default();
        *entry.data.entry(record.data.clone()).or_default() += 1;
        // The names above it exist, too, down to the domain.
        while is_new && let Some(above) = above(name, &self.domain) {
            is_new = !self.names.contains_key(above);
            self.names.entry(above.to_owned()).or_default().below += 1;
            name = above;
        }
    }

    fn remove(&mut self, record: &Record) {
        let Some(entry) = self.names.get_mut(&record.name) else { return };
        if let Some(count) = entry.data.get_mut(&record.data) {
            *count -= 1;
            if *count == 0 {
                entry.data.remove(&record.data);
            }
        }
        let mut name = record.name.as_str();
        while self.names.get(name).is_some_and(|entry| entry.data.is_empty() && entry.below == 0) {
            self.names.remove(name);
            let Some(above) = above(name, &self.domain) else { return };
            if let Some(entry) = self.names.get_mut(above) {
                entry.below -= 1;
            }
            name = above;
        }
    }
}

/// Names outside the domain (those of addresses) stand alone.
fn above<'a>(name: &'a str, domain: &str) -> Option<&'a str> {
    let (_, above) = name.split_once('.')?;
    let inside = above.strip_suffix(domain)?;
    (inside.is_empty() || inside.ends_with('.')).then_some(above)
}

impl From<IpAddr> for Data {
    fn from(address: IpAddr) -> Data {
        match address {
            IpAddr::V4(address) => Data::A(address),
            IpAddr::V6(address) => Data::Aaaa(address),
        }
    }
}
