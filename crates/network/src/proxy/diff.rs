//! What leads from one [`Ruleset`] to another: only what differs, as one transaction.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use minik8s_meta::IpFamily;

use super::ruleset::{nft_family, write_chain, write_elements, write_map};
use super::{Chain, Map, Ruleset};

/// Changes of one table. `Display` prints them for `nft -f`, which applies all of them or none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    family: IpFamily,
    pub(super) table: String,
    /// Without elements.
    pub(super) new_maps: BTreeMap<String, Map>,
    /// New, or with other rules than before.
    pub(super) new_chains: BTreeMap<String, Chain>,
    changed_chains: BTreeMap<String, Chain>,
    /// Also those whose value changed: an element cannot be overwritten.
    pub(super) old_elements: BTreeMap<String, BTreeMap<String, String>>,
    new_elements: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) old_chains: Vec<String>,
    /// By name: what they are called, set or map.
    pub(super) old_maps: BTreeMap<String, &'static str>,
}

/// Both must be of one table. `None` if the maps of a name have other types: then the table is to be replaced.
pub fn diff(from: &Ruleset, to: &Ruleset) -> Option<Change> {
    let mut change = Change { family: to.family, table: to.table.clone(), ..Change::default() };
    for (name, map) in &to.maps {
        match from.maps.get(name) {
            Some(before) if !before.is_empty_like(map) => return None,
            Some(before) => diff_elements(&mut change, name, before, map),
            None => {
                change.new_maps.insert(name.clone(), Map { elements: BTreeMap::new(), ..*map });
                diff_elements(&mut change, name, &Map::default(), map);
            }
        }
    }
    for (name, map) in from.maps.iter().filter(|(name, _)| !to.maps.contains_key(*name)) {
        // Its elements go with it.
        change.old_maps.insert(name.clone(), map.keyword());
    }
    for (name, rules) in &to.chains {
        match from.chains.get(name) {
            Some(before) if before == rules => {}
            Some(_) => drop(change.changed_chains.insert(name.clone(), rules.clone())),
            None => drop(change.new_chains.insert(name.clone(), rules.clone())),
        }
    }
    change.old_chains = from.chains.keys().filter(|name| !to.chains.contains_key(*name)).cloned().collect();
    Some(change)
}

fn diff_elements(change: &mut Change, name: &str, from: &Map, to: &Map) {
    let missing_in = |from: &Map, to: &Map| -> BTreeMap<String, String> {
        let differs = |(key, value): &(&String, &String)| to.elements.get(*key) != Some(*value);
        from.elements.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let (old, new) = (missing_in(from, to), missing_in(to, from));
    if !old.is_empty() {
        change.old_elements.insert(name.to_owned(), old);
    }
    if !new.is_empty() {
        change.new_elements.insert(name.to_owned(), new);
    }
}

impl Change {
    pub fn is_empty(&self) -> bool {
        *self == Change { family: self.family, table: self.table.clone(), ..Change::default() }
    }

    /// What nft makes of it.
    pub fn apply(&self, rules: &mut Ruleset) {
        rules.maps.extend(self.new_maps.clone());
        for (name, old) in &self.old_elements {
            rules.maps.entry(name.clone()).or_default().elements.retain(|key, _| !old.contains_key(key));
        }
        for (name, new) in &self.new_elements {
            rules.maps.entry(name.clone()).or_default().elements.extend(new.clone());
        }
        rules.chains.extend(self.new_chains.clone());
        rules.chains.extend(self.changed_chains.clone());
        rules.chains.retain(|name, _| !self.old_chains.contains(name));
        rules.maps.retain(|name, _| !self.old_maps.contains_key(name));
    }
}

impl Display for Change {
    /// The order is what references allow: nothing is used before it is there or removed while it is used.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let table = &format!("{} {}", nft_family(self.family), self.table);
        let chains = self.changed_chains.keys().chain(&self.old_chains);
        for name in chains {
            writeln!(f, "flush chain {table} {name}")?;
        }
        if !(self.new_maps.is_empty() && self.new_chains.is_empty() && self.changed_chains.is_empty()) {
            writeln!(f, "table {table} {{")?;
            for (name, map) in &self.new_maps {
                write_map(f, name, map)?;
            }
            for (name, rules) in self.new_chains.iter().chain(&self.changed_chains) {
                write_chain(f, name, rules)?;
            }
            writeln!(f, "}}")?;
        }
        let no_value = String::new();
        for (name, elements) in &self.old_elements {
            let keys = elements.keys().map(|key| (key, &no_value));
            write_elements(f, "delete", table, name, keys)?;
        }
        for (name, elements) in &self.new_elements {
            write_elements(f, "add", table, name, elements)?;
        }
        for name in &self.old_chains {
            writeln!(f, "delete chain {table} {name}")?;
        }
        for (name, keyword) in &self.old_maps {
            writeln!(f, "delete {keyword} {table} {name}")?;
        }
        Ok(())
    }
}
