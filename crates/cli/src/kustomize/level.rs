//! One directory: reads its kustomization and what that names, and builds.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::file::Kustomization;
use super::resource::Resource;
use super::{generate, patch, reference, replacement, transform};
use crate::error::{Error, Result};
use crate::manifest;

const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// Fields that kustomize has and this program does not.
const NOT_HERE: [&str; 9] = [
    "crds",
    "configurations",
    "generators",
    "helmCharts",
    "helmChartInflationGenerator",
    "openapi",
    "transformers",
    "validators",
    "vars",
];

/// A directory from which files are read, and from nowhere else.
pub struct Root(PathBuf);

impl Root {
    fn open(directory: &Path) -> Result<Root> {
        let found = directory.canonicalize();
        let found = found.map_err(|error| Error::plain(format!("{}: {error}", directory.display())))?;
        if found.is_dir() {
            return Ok(Root(found));
        }
        Err(Error::plain(format!("{} is no directory", directory.display())))
    }

    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.0.join(name);
        let wrong =
            |error: &dyn std::fmt::Display| Error::plain(format!("{name} in {}: {error}", self.0.display()));
        let path = path.canonicalize().map_err(|error| wrong(&error))?;
        if !path.starts_with(&self.0) {
            return Err(wrong(&"the file is not in or below that directory, so it is not read"));
        }
        std::fs::read(&path).map_err(|error| wrong(&error))
    }

    pub fn text(&self, name: &str) -> Result<String> {
        String::from_utf8(self.bytes(name)?).map_err(|_| Error::plain(format!("{name}: is not UTF-8 text")))
    }

    fn kustomization(&self) -> Result<Kustomization> {
        let shown = self.0.display();
        let there: Vec<&str> = NAMES.into_iter().filter(|name| self.0.join(name).is_file()).collect();
        let [name] = there[..] else {
            return Err(Error::plain(match there.len() {
                0 => format!(
                    "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '{shown}'"
                ),
                _ => format!("Found multiple kustomization files under: {shown}"),
            }));
        };
        let text = self.text(name)?;
        let documents = manifest::yaml::parse(&text);
        let mut documents = documents
            .map_err(|error| manifest::mistake::syntax(&format!("{shown}/{name}"), &text, &error))?;
        let value = match documents.len() {
            0 => return Err(Error::plain(format!("{shown}/{name} is empty"))),
            1 => documents.remove(0).value,
            _ => return Err(Error::plain(format!("{shown}/{name} has more than one document"))),
        };
        if let Some(field) = NOT_HERE.iter().find(|field| !value[**field].is_null()) {
            return Err(Error::plain(format!("{shown}/{name}: {field} is not supported here")));
        }
        serde_json::from_value(value)
            .map_err(|error| Error::plain(format!("invalid Kustomization: {shown}/{name}: {error}")))
    }
}

/// The resources of a directory. `above` are the directories that ask for it.
pub fn build(directory: &Path, above: &mut Vec<PathBuf>) -> Result<Vec<Resource>> {
    extend(directory, above, Vec::new(), "Kustomization")
}

/// As [`build`], on top of resources that are there: those of a component's user.
fn extend(
    directory: &Path,
    above: &mut Vec<PathBuf>,
    mut resources: Vec<Resource>,
    kind: &str,
) -> Result<Vec<Resource>> {
    let root = Root::open(directory)?;
    if above.contains(&root.0) {
        return Err(Error::plain(format!("cycle detected: {} builds on itself", root.0.display())));
    }
    let file = root.kustomization()?;
    let own = if file.kind.is_empty() { "Kustomization" } else { &file.kind };
    if own != kind {
        let told = format!("{}: kind should be {kind}, not {own}", root.0.display());
        return Err(Error::plain(told));
    }
    above.push(root.0.clone());
    for name in file.resources.iter().chain(&file.bases) {
        add(&root, name, above, &mut resources)?;
    }
    for name in &file.components {
        resources = extend(&root.0.join(name), above, resources, "Component")?;
    }
    generate::run(&root, &file, &mut resources)?;
    patch::run(&root, &file, &mut resources)?;
    transform::run(&file, &mut resources);
    patch::run_json(&root, &file.patches_json6902, &mut resources)?;
    transform::run_counts(&file, &mut resources)?;
    reference::follow(&mut resources);
    replacement::run(&root, &file.replacements, &mut resources)?;
    above.pop();
    Ok(resources)
}

/// A file with objects, or a directory with a kustomization.
fn add(root: &Root, name: &str, above: &mut Vec<PathBuf>, resources: &mut Vec<Resource>) -> Result<()> {
    if name.contains("://") || name.contains("git@") || name.starts_with("github.com/") {
        let told =
            format!("{name}: resources are not fetched from elsewhere; clone them and name the directory");
        return Err(Error::plain(told));
    }
    let added = match root.0.join(name).is_dir() {
        true => build(&root.0.join(name), above)?,
        false => objects(root, name)?.into_iter().map(Resource::new).collect(),
    };
    for resource in added {
        let same = |other: &Resource| {
            (other.group(), other.kind(), other.namespace(), other.name())
                == (resource.group(), resource.kind(), resource.namespace(), resource.name())
        };
        if resources.iter().any(same) {
            let told = format!("may not add resource with an already registered id: {}", resource.shown());
            return Err(Error::plain(format!("{name}: {told}")));
        }
        resources.push(resource);
    }
    Ok(())
}

fn objects(root: &Root, name: &str) -> Result<Vec<Value>> {
    let items = manifest::parse(name, &root.text(name)?)?;
    Ok(items.into_iter().map(|item| item.object).collect())
}
