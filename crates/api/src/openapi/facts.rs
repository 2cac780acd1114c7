//! Merge keys and list types of built-in types, read from `merge_keys.txt`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// What the file says of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fact {
    /// `.` is the type itself.
    field: &'static str,
    /// `atomic`, `set`, `map`, `granular` or `-`.
    kind: &'static str,
    /// Comma-separated keys of a map list.
    keys: &'static str,
    strategy: &'static str,
    merge_key: &'static str,
}

static FACTS: LazyLock<HashMap<&'static str, Vec<Fact>>> =
    LazyLock::new(|| parse(include_str!("merge_keys.txt")));

/// Adds the x-kubernetes-* extensions that the file has for the definition `name`.
pub(super) fn apply(name: &str, definition: &mut Map<String, Value>) {
    for fact in FACTS.get(name).into_iter().flatten() {
        if fact.field == "." {
            definition.insert("x-kubernetes-map-type".to_owned(), json!(fact.kind));
        } else if let Some(Value::Object(field)) = property(definition, fact.field) {
            fact.annotate(field);
        }
    }
}

fn property<'a>(definition: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Value> {
    definition.get_mut("properties")?.get_mut(name)
}

impl Fact {
    fn annotate(&self, field: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Value| field.insert(format!("x-kubernetes-{name}"), value);
        if !self.keys.is_empty() {
            set("list-map-keys", self.keys.split(',').collect());
        }
        if !self.strategy.is_empty() {
            set("patch-strategy", json!(self.strategy));
        }
        if !self.merge_key.is_empty() {
            set("patch-merge-key", json!(self.merge_key));
        }
        if self.kind != "-" {
            let is_list = field.get("type").is_some_and(|ty| ty == "array");
            let name = if is_list { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" };
            field.insert(name.to_owned(), json!(self.kind));
        }
    }
}

fn parse(text: &'static str) -> HashMap<&'static str, Vec<Fact>> {
    let mut facts: HashMap<&str, Vec<Fact>> = HashMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some(line) = line.strip_prefix(' ') else {
            current = line;
            continue;
        };
        let mut words = line.split(' ').map(|word| word.split_once(':').unwrap_or((word, "")));
        let (field, _) = words.next().unwrap_or_default();
        let (kind, keys) = words.next().unwrap_or_default();
        let (strategy, merge_key) = words.next().unwrap_or_default();
        facts.entry(current).or_default().push(Fact { field, kind, keys, strategy, merge_key });
    }
    facts
}

/// Every type and field that the file names.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FACTS.iter().flat_map(|(name, facts)| facts.iter().map(move |fact| (*name, fact.field)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format() {
        let facts =
            parse("# comment\na.B\n . atomic\n l map:x,y merge:x\n s - retainKeys\na.C\n t set merge\n");
        let fact = |field, kind, keys, strategy, merge_key| Fact { field, kind, keys, strategy, merge_key };
        assert_eq!(
            facts["a.B"],
            [
                fact(".", "atomic", "", "", ""),
                fact("l", "map", "x,y", "merge", "x"),
                fact("s", "-", "", "retainKeys", ""),
            ]
        );
        assert_eq!(facts["a.C"], [fact("t", "set", "", "merge", "")]);
    }

    #[test]
    fn extensions_land_on_the_field() {
        let mut container = json!({"properties": {"ports": {"type": "array"}, "image": {"type": "string"}}});
        apply("io.k8s.api.core.v1.Container", container.as_object_mut().unwrap());
        assert_eq!(
            container["properties"]["ports"],
            json!({
                "type": "array",
                "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "containerPort",
                "x-kubernetes-list-type": "map",
            })
        );
        assert_eq!(container["properties"]["image"], json!({"type": "string"}));
    }
}
