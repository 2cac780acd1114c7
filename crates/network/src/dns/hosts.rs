//! Names outside the cluster's domain that lead to the node itself, as the HTTP router knows them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

use super::{Data, Record, Zone};

/// The set of names, replaced as a whole.
pub type Hosts = watch::Receiver<Arc<BTreeSet<String>>>;

/// Keeps the names in the zone until their source is gone.
pub async fn follow(mut hosts: Hosts, zone: Arc<RwLock<Zone>>, addresses: Vec<IpAddr>) {
    loop {
        let names = hosts.borrow_and_update().clone();
        put(&mut zone.write(), &names, &addresses);
        if hosts.changed().await.is_err() {
            return;
        }
    }
}

fn put(zone: &mut Zone, names: &BTreeSet<String>, addresses: &[IpAddr]) {
    // No Service is called so: namespaces have no dot.
    let owner = ("minik8s.io".to_owned(), "hosts".to_owned());
    let records = |name: &String| {
        let name = name.clone();
        addresses.iter().map(move |address| Record { name: name.clone(), data: Data::from(*address) })
    };
    zone.put(&owner, names.iter().flat_map(records).collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_and_go() {
        let mut zone = Zone::new("cluster.local");
        let check = |zone: &Zone, name: &str, expected: bool| {
            assert_eq!(zone.owns(name), expected, "{name}");
            assert_eq!(zone.records(name).is_some_and(|found| found.len() == 2), expected, "{name}");
        };
        let node = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        put(&mut zone, &["shop.example".to_owned(), "a.b".to_owned()].into(), &node);
        check(&zone, "shop.example", true);
        check(&zone, "a.b", true);
        check(&zone, "x.shop.example", false);
        check(&zone, "example", false);
        put(&mut zone, &["a.b".to_owned()].into(), &node);
        check(&zone, "shop.example", false);
        check(&zone, "a.b", true);
    }
}
