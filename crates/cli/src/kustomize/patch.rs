//! `patches`: strategic merges and JSON patches.

use serde_json::{Map, Value};

use super::file::{Kustomization, Patch};
use super::level::Root;
use super::resource::Resource;
use super::selectors::Chosen;
use crate::error::{Error, Result};
use crate::manifest;

const DIRECTIVE: &str = "$patch";

pub fn run(root: &Root, file: &Kustomization, resources: &mut Vec<Resource>) -> Result<()> {
    for source in &file.patches_strategic_merge {
        // A file, or the patch itself.
        let text = if source.contains('\n') { source.clone() } else { root.text(source)? };
        for patch in values(source, &text)? {
            by_its_own_name(&patch, resources)?;
        }
    }
    for patch in &file.patches {
        let (name, text) = text_of(root, patch)?;
        for value in values(&name, &text)? {
            one(&name, patch, &value, resources)?;
        }
    }
    Ok(())
}

pub fn run_json(root: &Root, patches: &[Patch], resources: &mut Vec<Resource>) -> Result<()> {
    for patch in patches {
        let (name, text) = text_of(root, patch)?;
        for value in values(&name, &text)? {
            one(&name, patch, &value, resources)?;
        }
    }
    Ok(())
}

fn text_of(root: &Root, patch: &Patch) -> Result<(String, String)> {
    match (patch.path.as_str(), patch.patch.as_str()) {
        ("", "") => Err(Error::plain("a patch needs `patch` or `path`")),
        ("", text) => Ok(("patch".to_owned(), text.to_owned())),
        (path, "") => Ok((path.to_owned(), root.text(path)?)),
        (path, _) => Err(Error::plain(format!("a patch has `patch` or `path` ({path}), not both"))),
    }
}

fn values(name: &str, text: &str) -> Result<Vec<Value>> {
    let documents =
        manifest::yaml::parse(text).map_err(|error| manifest::mistake::syntax(name, text, &error))?;
    Ok(documents.into_iter().map(|document| document.value).collect())
}

fn one(name: &str, patch: &Patch, value: &Value, resources: &mut Vec<Resource>) -> Result<()> {
    let Some(target) = &patch.target else {
        if value.is_array() {
            return Err(Error::plain(format!("{name}: a JSON patch must say its target")));
        }
        return by_its_own_name(value, resources);
    };
    let chosen = Chosen::by(target)?;
    let may = |option: &str| patch.options.get(option).copied().unwrap_or_default();
    for resource in resources.iter_mut().filter(|resource| chosen.fits(resource)) {
        if value.is_array() {
            minik8s_patch::json::apply(value, &mut resource.object)
                .map_err(|error| Error::plain(format!("{name}: {}: {error}", resource.shown())))?;
            continue;
        }
        let (own_name, own_kind) = (resource.name().to_owned(), resource.object["kind"].clone());
        merge(&mut resource.object, value, None);
        if !may("allowNameChange") && !resource.object.is_null() {
            resource.object["metadata"]["name"] = own_name.into();
        }
        if !may("allowKindChange") && !resource.object.is_null() {
            resource.object["kind"] = own_kind;
        }
    }
    resources.retain(|resource| !resource.object.is_null());
    Ok(())
}

/// A strategic merge of the resource that the patch itself names.
fn by_its_own_name(patch: &Value, resources: &mut Vec<Resource>) -> Result<()> {
    let wanted = Resource::new(patch.clone());
    let fits = |one: &Resource| {
        (one.group(), one.kind()) == (wanted.group(), wanted.kind())
            && one.is_called(wanted.name())
            && (wanted.namespace().is_empty() || wanted.namespace() == one.namespace())
    };
    let found: Vec<usize> = (0..resources.len()).filter(|at| fits(&resources[*at])).collect();
    let [at] = found[..] else {
        let shown = wanted.shown();
        return Err(Error::plain(match found.len() {
            0 => format!("no resource matches strategic merge patch {shown:?}: no matches for Id"),
            _ => format!("more than one resource matches strategic merge patch {shown:?}"),
        }));
    };
    let name = resources[at].name().to_owned();
    merge(&mut resources[at].object, patch, None);
    match resources[at].object.is_null() {
        true => drop(resources.remove(at)),
        false => resources[at].object["metadata"]["name"] = name.into(),
    }
    Ok(())
}

/// Lists of Kubernetes' kinds that merge by a key; all others are replaced.
fn key_of(field: &str, items: &[Value]) -> Option<&'static str> {
    let keys: &[&str] = match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets"
        | "webhooks"
        | "resourceClaims" => &["name"],
        "volumeMounts" => &["mountPath"],
        "volumeDevices" => &["devicePath"],
        "ports" => &["containerPort", "port"],
        "hostAliases" => &["ip"],
        "topologySpreadConstraints" => &["topologyKey"],
        "conditions" => &["type"],
        "ownerReferences" => &["uid"],
        _ => &[],
    };
    keys.iter().copied().find(|key| !items.is_empty() && items.iter().all(|item| !item[*key].is_null()))
}

/// Strategic merge. What the patch adds to a list stands first, in its order.
fn merge(into: &mut Value, patch: &Value, field: Option<&str>) {
    match (into, patch) {
        (into, Value::Object(patch)) if patch.get(DIRECTIVE).is_some_and(|how| how == "delete") => {
            *into = Value::Null;
        }
        (into, Value::Object(patch)) if patch.get(DIRECTIVE).is_some_and(|how| how == "replace") => {
            let rest = patch.iter().filter(|(key, _)| *key != DIRECTIVE);
            *into = Value::Object(rest.map(|(key, value)| (key.clone(), value.clone())).collect());
        }
        (Value::Object(map), Value::Object(patch)) => merge_map(map, patch),
        (Value::Array(items), Value::Array(patch)) => {
            let replaces = patch.iter().any(|item| item[DIRECTIVE] == "replace");
            let news: Vec<Value> =
                patch.iter().filter(|item| item[DIRECTIVE] != "replace").cloned().collect();
            let all: Vec<Value> = items.iter().chain(&news).cloned().collect();
            match field.and_then(|field| key_of(field, &all)).filter(|_| !replaces) {
                Some(key) => merge_list(items, &news, key),
                None => *items = news,
            }
        }
        (into, patch) => *into = plain(patch),
    }
}

fn merge_map(map: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        if value.is_null() {
            map.shift_remove(key);
            continue;
        }
        let below = map.entry(key.clone()).or_insert(match value {
            Value::Object(_) => Value::Object(Map::new()),
            _ => Value::Null,
        });
        merge(below, value, Some(key));
        if below.is_null() {
            map.shift_remove(key);
        }
    }
}

fn merge_list(items: &mut Vec<Value>, patch: &[Value], key: &str) {
    let mut rest = std::mem::take(items);
    for one in patch {
        let at = rest.iter().position(|item| item[key] == one[key]);
        let mut merged = match at {
            Some(at) => rest.remove(at),
            None => Value::Object(Map::new()),
        };
        merge(&mut merged, one, None);
        if !merged.is_null() {
            items.push(merged);
        }
    }
    items.append(&mut rest);
}

/// Without what only patches say.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(key, value)| !key.starts_with('$') && !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), plain(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        other => other.clone(),
    }
}
