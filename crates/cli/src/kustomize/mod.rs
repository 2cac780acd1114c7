//! `kustomization.yaml`: the objects of a directory, and of those it builds on, changed as it says. The objects, their order
//! and their names are those of `kubectl kustomize`.
//!
//! A level reads its resources ([`level`]), makes objects of its own ([`generate`]), changes all of them ([`patch`],
//! [`transform`], [`replacement`]) and then follows the names that changed ([`reference`]). What the outermost one gives is
//! named after its contents ([`hash`]) and put in [`order`]. No file outside of a level's directory is read.

mod file;
mod generate;
mod hash;
mod image;
mod level;
mod order;
mod patch;
mod reference;
mod replacement;
mod resource;
mod selectors;
#[cfg(test)]
mod tests;
mod transform;

use std::path::Path;

use serde_json::Value;

use crate::error::Result;

/// The objects of a directory with a kustomization.
pub fn build(directory: &str) -> Result<Vec<Value>> {
    let mut resources = level::build(Path::new(directory), &mut Vec::new())?;
    hash::name(&mut resources);
    reference::follow(&mut resources);
    order::sort(&mut resources);
    Ok(resources.into_iter().map(|resource| resource.object).collect())
}
