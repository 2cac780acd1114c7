//! The table's state between changes: which of its maps and chains are in use.
//!
//! A change of a few frontends must not cost a look at all of them. So nothing is kept of the elements, which
//! follow from the routes, and only counts of the maps and chains that several frontends share.

use std::collections::HashMap;

use minik8s_meta::IpFamily;

use super::key_types::fixed_maps;
use super::layout::{add_route, own_endpoint};
use super::{Change, RouteChanges, Routes, Ruleset, diff};

#[derive(Debug, Default)]
pub struct Table {
    family: IpFamily,
    name: String,
    /// By how many frontends. Maps and chains that are always there are not counted.
    maps: HashMap<String, usize>,
    chains: HashMap<String, usize>,
}

impl Table {
    /// As it is once the whole ruleset of these routes is in the kernel.
    pub fn new(family: IpFamily, name: &str, routes: &Routes) -> Table {
        let mut table = Table { family, name: name.to_owned(), ..Table::default() };
        for (frontend, route) in &routes.frontends {
            let mut part = Ruleset::new(family, name);
            add_route(&mut part, *frontend, route);
            table.count(&part, 1);
        }
        table
    }

    /// What leads from the rules of the old routes to those of the new ones.
    pub fn change(&mut self, changes: &RouteChanges) -> Change {
        let [mut from, mut to] = [(); 2].map(|()| Ruleset::new(self.family, &self.name));
        let before = (self.maps.clone(), self.chains.clone());
        for (frontend, (old, new)) in &changes.frontends {
            for (route, rules, step) in [(old, &mut from, -1), (new, &mut to, 1)] {
                let Some(route) = route else { continue };
                let mut part = Ruleset::new(self.family, &self.name);
                add_route(&mut part, *frontend, route);
                self.count(&part, step);
                merge(rules, part);
            }
        }
        for (addresses, rules) in
            [(&changes.old_own_endpoints, &mut from), (&changes.new_own_endpoints, &mut to)]
        {
            addresses.iter().for_each(|address| own_endpoint(rules, *address));
        }
        self.settle(from, to, before)
    }

    /// The difference of the two parts, without what other frontends use as well.
    fn settle(
        &self,
        from: Ruleset,
        to: Ruleset,
        (maps, chains): (HashMap<String, usize>, HashMap<String, usize>),
    ) -> Change {
        // Maps of one name are of one type: their name says which.
        let mut change = diff(&from, &to).unwrap_or_default();
        let used = |uses: &HashMap<String, usize>, name: &String| match uses.get(name) {
            Some(count) => *count > 0,
            None => is_fixed(name),
        };
        change.new_maps.retain(|name, _| !used(&maps, name));
        change.new_chains.retain(|name, _| !used(&chains, name));
        change.old_chains.retain(|name| !used(&self.chains, name));
        change.old_maps.retain(|name, _| !used(&self.maps, name));
        for (name, map) in from.maps {
            let stays = !to.maps.contains_key(&name) && used(&self.maps, &name);
            if stays && !map.elements.is_empty() {
                change.old_elements.insert(name, map.elements);
            }
        }
        change
    }

    fn count(&mut self, part: &Ruleset, step: isize) {
        let bump = |uses: &mut HashMap<String, usize>, name: &String| {
            let count = uses.entry(name.clone()).or_default();
            *count = count.saturating_add_signed(step);
            if *count == 0 {
                uses.remove(name);
            }
        };
        part.maps.keys().filter(|name| !is_fixed(name)).for_each(|name| bump(&mut self.maps, name));
        part.chains.keys().for_each(|name| bump(&mut self.chains, name));
    }
}

fn is_fixed(map: &str) -> bool {
    fixed_maps(IpFamily::V4).iter().any(|(name, ..)| *name == map)
}

fn merge(into: &mut Ruleset, part: Ruleset) {
    for (name, map) in part.maps {
        match into.maps.get_mut(&name) {
            Some(known) => known.elements.extend(map.elements),
            None => drop(into.maps.insert(name, map)),
        }
    }
    into.chains.extend(part.chains);
}
