//! How much of a server each client may have at once, so that none keeps the others from being served.
//!
//! A place is held by a value and given back when that is dropped. Nobody ever waits for a place: who gets none is
//! turned away at once, which costs a client of good will a second try and an attacker all of the effect.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Places by client address.
#[derive(Debug)]
pub struct ClientLimit {
    each: usize,
    total: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    total: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// A client's place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    limit: Arc<ClientLimit>,
    client: IpAddr,
}

impl ClientLimit {
    pub fn new(each: usize, total: usize) -> Arc<Self> {
        Arc::new(ClientLimit { each, total, held: Mutex::default() })
    }

    /// `None` if the client, or all together, have as many as they may.
    pub fn admit(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let client = client.to_canonical();
        let mut held = self.held.lock();
        let own = held.by_client.get(&client).copied().unwrap_or_default();
        if held.total >= self.total || own >= self.each {
            return None;
        }
        held.total += 1;
        held.by_client.insert(client, own + 1);
        Some(Place { limit: self.clone(), client })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.limit.held.lock();
        held.total -= 1;
        if let Some(own) = held.by_client.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                held.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_holds_per_client_and_in_total() {
        let limit = ClientLimit::new(2, 3);
        let admit = |client: &str| limit.admit(client.parse().unwrap_or(IpAddr::from([0; 4])));
        let (first, second) = (admit("10.0.0.1"), admit("::ffff:10.0.0.1"));
        assert!(first.is_some() && second.is_some());
        assert!(admit("10.0.0.1").is_none(), "a client's third, however it is written");
        let other = admit("10.0.0.2");
        assert!(other.is_some());
        assert!(admit("10.0.0.3").is_none(), "the fourth of all");
        drop(first);
        assert!(admit("10.0.0.3").is_some());
        drop((second, other));
        let held = limit.held.lock();
        assert_eq!((held.total, held.by_client.len()), (0, 0), "nothing is remembered of those who left");
    }
}
