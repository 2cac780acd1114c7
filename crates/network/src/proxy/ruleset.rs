//! One nftables table as a value: named maps with their elements, and chains.
//!
//! `Display` prints what `nft -f` reads: it replaces the table in one transaction, so that no packet ever
//! meets half of it.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use minik8s_meta::IpFamily;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruleset {
    pub family: IpFamily,
    pub table: String,
    pub maps: BTreeMap<String, Map>,
    pub chains: BTreeMap<String, Chain>,
}

/// A map, or a set: then its elements have empty values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Map {
    pub key_type: &'static str,
    /// Empty for a set.
    pub value_type: &'static str,
    /// What else is said about it, e.g. that the kernel adds elements by itself.
    pub options: &'static str,
    pub elements: BTreeMap<String, String>,
}

/// Its rules in order; a hook is its first line.
pub type Chain = Vec<String>;

/// What nft calls the tables of a family, and its addresses in rules.
pub fn nft_family(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ip",
        IpFamily::V6 => "ip6",
    }
}

impl Ruleset {
    /// Without maps and chains.
    pub fn new(family: IpFamily, table: &str) -> Ruleset {
        Ruleset { family, table: table.to_owned(), ..Ruleset::default() }
    }
}

impl Map {
    pub fn keyword(&self) -> &'static str {
        if self.value_type.is_empty() { "set" } else { "map" }
    }

    pub(super) fn is_empty_like(&self, other: &Map) -> bool {
        (self.key_type, self.value_type, self.options) == (other.key_type, other.value_type, other.options)
    }
}

impl Display for Ruleset {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let table = format!("{} {}", nft_family(self.family), self.table);
        // To delete a table that may not exist, it is made first.
        writeln!(f, "table {table}\ndelete table {table}\ntable {table} {{")?;
        for (name, map) in &self.maps {
            write_map(f, name, map)?;
        }
        for (name, rules) in &self.chains {
            write_chain(f, name, rules)?;
        }
        writeln!(f, "}}")?;
        for (name, map) in &self.maps {
            write_elements(f, "add", &table, name, &map.elements)?;
        }
        Ok(())
    }
}

pub(super) fn write_map(f: &mut Formatter<'_>, name: &str, map: &Map) -> fmt::Result {
    let arrow = if map.value_type.is_empty() { "" } else { " : " };
    let Map { key_type, value_type, options, .. } = map;
    let space = if options.is_empty() { "" } else { " " };
    writeln!(f, "  {} {name} {{ type {key_type}{arrow}{value_type};{space}{options} }}", map.keyword())
}

pub(super) fn write_chain(f: &mut Formatter<'_>, name: &str, rules: &[String]) -> fmt::Result {
    writeln!(f, "  chain {name} {{")?;
    for rule in rules {
        writeln!(f, "    {rule}")?;
    }
    writeln!(f, "  }}")
}

/// One element a line, so that an error of nft names the one it means. The table is named with its family.
pub(super) fn write_elements<'a>(
    f: &mut Formatter<'_>,
    verb: &str,
    table: &str,
    map: &str,
    elements: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> fmt::Result {
    let mut elements = elements.into_iter().peekable();
    if elements.peek().is_none() {
        return Ok(());
    }
    writeln!(f, "{verb} element {table} {map} {{")?;
    for (key, value) in elements {
        let arrow = if value.is_empty() { "" } else { " : " };
        writeln!(f, "  {key}{arrow}{value},")?;
    }
    writeln!(f, "}}")
}
