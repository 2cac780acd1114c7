//! A container's environment. Pure: what it refers to was fetched before.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use thiserror::Error;

use super::expand::{Room, TooLarge};
use super::field_ref::{self, FieldError, Placement};
use crate::objects::Objects;
use crate::pod::{ContainerSpec, DesiredPod};

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvError {
    #[error("{kind} {name:?} not found")]
    Missing { kind: &'static str, name: String },
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    MissingKey { kind: &'static str, namespace: String, name: String, key: String },
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// Name and value pairs in the order in which they are set; later ones win.
pub fn environment(
    desired_pod: &DesiredPod,
    container: &ContainerSpec,
    objects: &Objects,
    placement: &Placement,
    service_links: &[(String, String)],
) -> Result<Vec<(String, String)>, EnvError> {
    let mut env = Environment::default();
    for (name, value) in service_links {
        env.set(name, value.clone())?;
    }
    for source in container.spec.env_from.iter().flatten() {
        env.set_all(source, objects)?;
    }
    for variable in container.spec.env.iter().flatten() {
        let value = match (&variable.value, &variable.value_from) {
            (_, Some(source)) => from_source(desired_pod, container, source, objects, placement)?,
            // Counted where it is set.
            (Some(text), None) => Some(Room::default().expand(text, |name| env.get(name))?),
            (None, None) => Some(String::new()),
        };
        if let Some(value) = value {
            env.set(&variable.name, value)?;
        }
    }
    Ok(env.order.into_iter().map(|name| (name.clone(), env.values[&name].clone())).collect())
}

#[derive(Default)]
struct Environment {
    order: Vec<String>,
    values: BTreeMap<String, String>,
    room: Room,
}

impl Environment {
    fn set(&mut self, name: &str, value: String) -> Result<(), TooLarge> {
        self.room.take(name.len() + value.len())?;
        if self.values.insert(name.to_owned(), value).is_none() {
            self.order.push(name.to_owned());
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn set_all(&mut self, source: &core::EnvFromSource, objects: &Objects) -> Result<(), EnvError> {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let (kind, name, optional, data) = match (&source.config_map_ref, &source.secret_ref) {
            (Some(r), _) => ("configmap", &r.name, r.optional, objects.config_map(&r.name)),
            (None, Some(r)) => ("secret", &r.name, r.optional, objects.secret(&r.name)),
            (None, None) => return Ok(()),
        };
        match data {
            Some(data) => {
                for (key, value) in data {
                    if is_variable_name(key) {
                        self.set(&format!("{prefix}{key}"), String::from_utf8_lossy(value).into_owned())?;
                    }
                }
                Ok(())
            }
            None if optional == Some(true) => Ok(()),
            None => Err(EnvError::Missing { kind, name: name.clone() }),
        }
    }
}

fn from_source(
    desired_pod: &DesiredPod,
    container: &ContainerSpec,
    source: &core::EnvVarSource,
    objects: &Objects,
    placement: &Placement,
) -> Result<Option<String>, EnvError> {
    if let Some(selector) = &source.field_ref {
        return Ok(Some(field_ref::field(desired_pod, placement, &selector.field_path)?));
    }
    if let Some(selector) = &source.resource_field_ref {
        let value = field_ref::resource(desired_pod, placement, &container.spec.name, selector)?;
        return Ok(Some(value));
    }
    let (kind, name, key, optional, data) = if let Some(r) = &source.config_map_key_ref {
        ("ConfigMap", &r.name, &r.key, r.optional, objects.config_map(&r.name))
    } else if let Some(r) = &source.secret_key_ref {
        ("Secret", &r.name, &r.key, r.optional, objects.secret(&r.name))
    } else {
        return Ok(None);
    };
    let optional = optional == Some(true);
    let missing = || EnvError::Missing {
        kind: if kind == "Secret" { "secret" } else { "configmap" },
        name: name.clone(),
    };
    let missing_key = || EnvError::MissingKey {
        kind,
        namespace: desired_pod.namespace.clone(),
        name: name.clone(),
        key: key.clone(),
    };
    match data {
        None if optional => Ok(None),
        None => Err(missing()),
        Some(data) => match data.get(key) {
            Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
            None if optional => Ok(None),
            None => Err(missing_key()),
        },
    }
}

/// Keys that no process could look up are left out, as upstream does.
fn is_variable_name(key: &str) -> bool {
    !key.is_empty() && !key.contains('=') && key.chars().all(|c| c.is_ascii_graphic() || c == ' ')
}

#[cfg(test)]
#[path = "env_tests.rs"]
mod tests;
