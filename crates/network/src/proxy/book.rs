//! The routes of all Services, changed Service by Service.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Frontend, Route, RouteChanges, Routes};

/// Namespace and name.
type Key = (String, String);

/// Several Services may claim one frontend: the first by namespace and name has it.
#[derive(Debug, Default)]
pub struct Book {
    services: BTreeMap<Key, Routes>,
    claims: BTreeMap<Frontend, BTreeMap<Key, Route>>,
    /// How many Services name them.
    own_endpoints: BTreeMap<IpAddr, usize>,
    pending: Pending,
}

/// What has been touched since the changes were last taken, as it was before.
#[derive(Debug, Default)]
struct Pending {
    frontends: BTreeMap<Frontend, Option<Route>>,
    own_endpoints: BTreeMap<IpAddr, bool>,
}

impl Book {
    /// A Service that is gone has no routes.
    pub fn put(&mut self, service: &Key, routes: Routes) {
        let old = match routes == Routes::default() {
            true => self.services.remove(service),
            false => self.services.insert(service.clone(), routes.clone()),
        };
        let old = old.unwrap_or_default();
        if old == routes {
            return;
        }
        for frontend in old.frontends.keys().chain(routes.frontends.keys()) {
            let now = self.route(frontend).cloned();
            self.pending.frontends.entry(*frontend).or_insert(now);
        }
        for address in old.own_endpoints.iter().chain(&routes.own_endpoints) {
            let now = self.own_endpoints.contains_key(address);
            self.pending.own_endpoints.entry(*address).or_insert(now);
        }
        for frontend in old.frontends.keys() {
            if let Some(claims) = self.claims.get_mut(frontend) {
                claims.remove(service);
                if claims.is_empty() {
                    self.claims.remove(frontend);
                }
            }
        }
        for (frontend, route) in routes.frontends {
            self.claims.entry(frontend).or_default().insert(service.clone(), route);
        }
        for address in &routes.own_endpoints {
            *self.own_endpoints.entry(*address).or_default() += 1;
        }
        for address in &old.own_endpoints {
            if let Some(count) = self.own_endpoints.get_mut(address) {
                *count -= 1;
                if *count == 0 {
                    self.own_endpoints.remove(address);
                }
            }
        }
    }

    pub fn services(&self) -> impl Iterator<Item = &Key> {
        self.services.keys()
    }

    /// What the puts since the last call have changed.
    pub fn take_changes(&mut self) -> RouteChanges {
        let pending = std::mem::take(&mut self.pending);
        let mut changes = RouteChanges::default();
        for (frontend, before) in pending.frontends {
            let after = self.route(&frontend).cloned();
            if before != after {
                changes.frontends.insert(frontend, (before, after));
            }
        }
        for (address, before) in pending.own_endpoints {
            match (before, self.own_endpoints.contains_key(&address)) {
                (true, false) => drop(changes.old_own_endpoints.insert(address)),
                (false, true) => drop(changes.new_own_endpoints.insert(address)),
                _ => {}
            }
        }
        changes
    }

    /// All of them as they are now.
    pub fn routes(&self) -> Routes {
        let first = |(frontend, claims): (&Frontend, &BTreeMap<Key, Route>)| {
            claims.values().next().map(|route| (*frontend, route.clone()))
        };
        Routes {
            frontends: self.claims.iter().filter_map(first).collect(),
            own_endpoints: self.own_endpoints.keys().copied().collect::<BTreeSet<_>>(),
        }
    }

    fn route(&self, frontend: &Frontend) -> Option<&Route> {
        self.claims.get(frontend)?.values().next()
    }
}
