//! `replacements`: a field of one resource becomes a field of others.

use serde_json::{Map, Value};

use super::file::{FieldOptions, ReplacementEntry, Selector, Source, Target};
use super::level::Root;
use super::resource::Resource;
use super::selectors::Chosen;
use crate::error::{Error, Result};
use crate::manifest;

pub fn run(root: &Root, entries: &[ReplacementEntry], resources: &mut [Resource]) -> Result<()> {
    for entry in entries {
        if entry.path.is_empty() {
            one(entry, resources)?;
            continue;
        }
        let text = root.text(&entry.path)?;
        let documents = manifest::yaml::parse(&text);
        let documents = documents.map_err(|error| manifest::mistake::syntax(&entry.path, &text, &error))?;
        for document in documents {
            let values = match document.value {
                Value::Array(values) => values,
                value => vec![value],
            };
            for value in values {
                let entry: ReplacementEntry = serde_json::from_value(value)
                    .map_err(|error| Error::plain(format!("{}: {error}", entry.path)))?;
                one(&entry, resources)?;
            }
        }
    }
    Ok(())
}

fn one(entry: &ReplacementEntry, resources: &mut [Resource]) -> Result<()> {
    let source = entry.source.as_ref().ok_or_else(|| Error::plain("a replacement needs a source"))?;
    let value = value_of(source, resources)?;
    for target in &entry.targets {
        put(target, &value, resources)?;
    }
    Ok(())
}

fn value_of(source: &Source, resources: &[Resource]) -> Result<Value> {
    let exactly = |text: &str| regex::escape(text);
    let chosen = Chosen::by(&Selector {
        group: exactly(&source.group),
        version: exactly(&source.version),
        kind: exactly(&source.kind),
        name: exactly(&source.name),
        namespace: exactly(&source.namespace),
        ..Selector::default()
    })?;
    let found: Vec<&Resource> = resources.iter().filter(|resource| chosen.fits(resource)).collect();
    let shown = format!("{}/{}", source.kind, source.name);
    let [resource] = found[..] else {
        let count = found.len();
        return Err(Error::plain(format!("replacement source {shown}: {count} resources match; one must")));
    };
    let path = if source.field_path.is_empty() { "metadata.name" } else { &source.field_path };
    let mut object = resource.object.clone();
    let places = places(&mut object, &steps(path)?, None)?;
    let [value] = &places[..] else {
        return Err(Error::plain(format!("replacement source {shown}: there is no field {path}")));
    };
    let value = (**value).clone();
    if source.options.delimiter.is_empty() {
        return Ok(value);
    }
    let parts: Vec<&str> = value.as_str().unwrap_or_default().split(&source.options.delimiter).collect();
    let part = usize::try_from(source.options.index).ok().and_then(|index| parts.get(index));
    let told =
        || Error::plain(format!("replacement source {shown}: {path} has no part {}", source.options.index));
    part.map(|part| Value::from(*part)).ok_or_else(told)
}

fn put(target: &Target, value: &Value, resources: &mut [Resource]) -> Result<()> {
    let chosen = Chosen::by(&target.select)?;
    let rejected = target.reject.iter().map(Chosen::by).collect::<Result<Vec<_>>>()?;
    let paths = match target.field_paths.is_empty() {
        true => vec!["metadata.name".to_owned()],
        false => target.field_paths.clone(),
    };
    let wanted =
        |one: &&mut Resource| chosen.fits(one) && !rejected.iter().any(|rejected| rejected.fits(one));
    for resource in resources.iter_mut().filter(wanted) {
        for path in &paths {
            let shown = resource.shown();
            let told = |what: String| Error::plain(format!("replacement target {shown}: {path}: {what}"));
            let blank = target.options.create.then_some(value);
            let places = places(&mut resource.object, &steps(path)?, blank)?;
            if places.is_empty() {
                return Err(told("there is no such field; options.create makes it".to_owned()));
            }
            for place in places {
                *place = filled(place, value, &target.options).map_err(told)?;
            }
        }
    }
    Ok(())
}

/// What stands in a place afterwards.
fn filled(place: &Value, value: &Value, options: &FieldOptions) -> Result<Value, String> {
    if options.delimiter.is_empty() {
        return Ok(value.clone());
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (old, new) = (text(place), text(value));
    let mut parts: Vec<&str> = old.split(&options.delimiter).collect();
    match usize::try_from(options.index) {
        Err(_) => parts.insert(0, &new),
        Ok(index) if index < parts.len() => parts[index] = &new,
        Ok(_) => parts.push(&new),
    }
    Ok(parts.join(&options.delimiter).into())
}

/// Dots separate; `\.` is one, and so is one in brackets.
fn steps(path: &str) -> Result<Vec<String>> {
    let (mut steps, mut step, mut deep, mut escaped) = (Vec::new(), String::new(), false, false);
    for letter in path.chars() {
        match letter {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '.' if !escaped && !deep => steps.push(std::mem::take(&mut step)),
            '[' if !escaped => {
                deep = true;
                step.push('[');
            }
            ']' if !escaped => {
                deep = false;
                step.push(']');
            }
            other => step.push(other),
        }
        escaped = false;
    }
    steps.push(step);
    match steps.iter().any(String::is_empty) {
        true => Err(Error::plain(format!("{path:?} is no path of fields"))),
        false => Ok(steps),
    }
}

/// The places that a path leads to. `blank` is put where there is none.
fn places<'a>(value: &'a mut Value, steps: &[String], blank: Option<&Value>) -> Result<Vec<&'a mut Value>> {
    let Some((step, rest)) = steps.split_first() else { return Ok(vec![value]) };
    if step == "*" {
        let below: Vec<&mut Value> = match value {
            Value::Array(items) => items.iter_mut().collect(),
            Value::Object(map) => map.values_mut().collect(),
            _ => Vec::new(),
        };
        return below.into_iter().map(|one| places(one, rest, blank)).collect::<Result<Vec<_>>>().map(flat);
    }
    if let Some(condition) = step.strip_prefix('[').and_then(|step| step.strip_suffix(']')) {
        let (field, wanted) = condition
            .split_once('=')
            .ok_or_else(|| Error::plain(format!("{step}: expected [field=value]")))?;
        let Value::Array(items) = value else { return Ok(Vec::new()) };
        let fits = |one: &&mut Value| {
            let own = one[field].as_str().map_or_else(|| one[field].to_string(), str::to_owned);
            own == wanted
        };
        let found = items.iter_mut().filter(fits).map(|one| places(one, rest, blank));
        return found.collect::<Result<Vec<_>>>().map(flat);
    }
    match value {
        Value::Array(items) => {
            let at =
                step.parse::<usize>().map_err(|_| Error::plain(format!("{step:?} is no place in a list")))?;
            items.get_mut(at).map_or_else(|| Ok(Vec::new()), |one| places(one, rest, blank))
        }
        Value::Object(map) => {
            if let Some(blank) = blank.filter(|_| !map.contains_key(step)) {
                let new = if rest.is_empty() { blank.clone() } else { Value::Object(Map::new()) };
                map.insert(step.clone(), new);
            }
            map.get_mut(step).map_or_else(|| Ok(Vec::new()), |one| places(one, rest, blank))
        }
        _ => Ok(Vec::new()),
    }
}

fn flat(found: Vec<Vec<&mut Value>>) -> Vec<&mut Value> {
    found.into_iter().flatten().collect()
}
