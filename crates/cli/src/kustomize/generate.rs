//! `configMapGenerator` and `secretGenerator`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::file::{Generator, GeneratorOptions, Kustomization};
use super::level::Root;
use super::resource::{Resource, entry};
use crate::error::{Error, Result};

pub fn run(root: &Root, file: &Kustomization, resources: &mut Vec<Resource>) -> Result<()> {
    for (kind, generators) in [("ConfigMap", &file.config_map_generator), ("Secret", &file.secret_generator)]
    {
        for generator in generators {
            let made = make(root, kind, generator, &file.generator_options)?;
            put(made, kind, generator, resources)?;
        }
    }
    Ok(())
}

fn make(root: &Root, kind: &str, generator: &Generator, options: &GeneratorOptions) -> Result<Resource> {
    let told = |what: String| Error::plain(format!("{kind} generator {:?}: {what}", generator.name));
    if generator.name.is_empty() {
        return Err(told("name is missing".to_owned()));
    }
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": generator.name}});
    if !generator.namespace.is_empty() {
        object["metadata"]["namespace"] = generator.namespace.clone().into();
    }
    if kind == "Secret" {
        object["type"] = if generator.kind.is_empty() { "Opaque" } else { &generator.kind }.into();
    }
    let own = &generator.options;
    for (field, all, more) in
        [("labels", &options.labels, &own.labels), ("annotations", &options.annotations, &own.annotations)]
    {
        for (key, value) in all.iter().chain(more) {
            entry(&mut object["metadata"], field).insert(key.clone(), value.clone().into());
        }
    }
    if options.immutable || own.immutable {
        object["immutable"] = true.into();
    }
    for (key, value) in contents(root, generator).map_err(|error| told(error.to_string()))? {
        let (field, value) = match String::from_utf8(value) {
            Ok(text) if kind == "ConfigMap" => ("data", text),
            Ok(text) => ("data", STANDARD.encode(text)),
            Err(bytes) if kind == "Secret" => ("data", STANDARD.encode(bytes.as_bytes())),
            Err(bytes) => ("binaryData", STANDARD.encode(bytes.as_bytes())),
        };
        if entry(&mut object, field).insert(key.clone(), value.into()).is_some() {
            return Err(told(format!("the key {key:?} is there twice")));
        }
    }
    let is_hashed = !(options.disable_name_suffix_hash || own.disable_name_suffix_hash);
    Ok(Resource { is_hashed, ..Resource::new(object) })
}

fn contents(root: &Root, generator: &Generator) -> Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let env = Some(&generator.env).filter(|env| !env.is_empty());
    for name in generator.envs.iter().chain(env) {
        for line in root.text(name)?.lines().map(str::trim_start) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = match line.split_once('=') {
                Some((key, value)) => (key, value.to_owned()),
                // As a shell passes on what it has.
                None => (line, std::env::var(line).unwrap_or_default()),
            };
            found.push((key.to_owned(), value.into_bytes()));
        }
    }
    for literal in &generator.literals {
        let Some((key, value)) = literal.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Error::plain(format!("invalid literal source {literal:?}, expected key=value")));
        };
        let quoted = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
        found.push((key.to_owned(), quoted.unwrap_or(value).as_bytes().to_vec()));
    }
    for source in &generator.files {
        let (key, path) = match source.split_once('=') {
            Some((key, path)) => (key, path),
            None => (source.rsplit('/').next().unwrap_or(source), source.as_str()),
        };
        found.push((key.to_owned(), root.bytes(path)?));
    }
    Ok(found)
}

/// Adds what was made, or changes what is there, as its behavior says.
fn put(made: Resource, kind: &str, generator: &Generator, resources: &mut Vec<Resource>) -> Result<()> {
    let fits = |one: &&mut Resource| {
        one.kind() == kind
            && one.is_called(&generator.name)
            && (generator.namespace.is_empty() || one.namespace() == generator.namespace)
    };
    let there = resources.iter_mut().find(fits);
    let told = |what: &str| Error::plain(format!("{kind} generator {:?}: {what}", generator.name));
    let there = match (generator.behavior.as_str(), there) {
        ("" | "create" | "unspecified", None) => {
            resources.push(made);
            return Ok(());
        }
        ("" | "create" | "unspecified", Some(_)) => {
            return Err(told("there is one of this name; its behavior must be merge or replace"));
        }
        ("merge" | "replace", None) => return Err(told("there is nothing to merge with or replace")),
        ("merge" | "replace", Some(there)) => there,
        (other, _) => {
            return Err(told(&format!("behavior {other:?} is none of create, merge, replace")));
        }
    };
    let fields = ["data", "binaryData"];
    if generator.behavior == "replace"
        && let Some(map) = there.object.as_object_mut()
    {
        fields.iter().for_each(|field| drop(map.shift_remove(*field)));
    }
    merge(&mut there.object, &made.object, &fields);
    merge(&mut there.object["metadata"], &made.object["metadata"], &["labels", "annotations"]);
    there.is_hashed = made.is_hashed;
    Ok(())
}

fn merge(into: &mut Value, from: &Value, fields: &[&str]) {
    for field in fields {
        let empty = Map::new();
        for (key, value) in from[field].as_object().unwrap_or(&empty) {
            entry(into, field).insert(key.clone(), value.clone());
        }
    }
}
