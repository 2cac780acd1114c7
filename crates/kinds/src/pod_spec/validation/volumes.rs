//! The volumes of a pod: names, and exactly one source each.

use std::collections::HashMap;

use serde_json::Value;

use super::volume_source;
use crate::At;
use crate::{FieldErrors, format};

/// The volumes of a pod by name: what mounts may refer to.
pub(super) type Volumes<'a> = HashMap<&'a str, Backing>;

/// What a volume rests on, as far as mounts must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backing {
    /// A claim, which may be a block device.
    Claim,
    Other,
}

fn backing(volume: &Value) -> Backing {
    let claims = ["persistentVolumeClaim", "ephemeral"];
    if claims.iter().any(|source| !volume[*source].is_null()) { Backing::Claim } else { Backing::Other }
}

pub(super) fn validate<'a>(volumes: &At<'a>, errors: &mut FieldErrors) -> Volumes<'a> {
    let mut known = Volumes::new();
    for volume in volumes.items() {
        let name = volume.field("name");
        name.need_form(errors, format::label);
        if name.is_set() && known.insert(name.text(), backing(volume.value)).is_some() {
            name.duplicate(errors);
        }
        one_source(&volume, errors);
    }
    known
}

fn one_source(volume: &At<'_>, errors: &mut FieldErrors) {
    let fields = volume.value.as_object().into_iter().flatten();
    let mut sources = fields.filter(|(name, source)| *name != "name" && !source.is_null());
    let Some((name, _)) = sources.next() else {
        return volume.required(errors, "must specify a volume type");
    };
    volume_source::validate(name, &volume.field(name), errors);
    for (extra, _) in sources {
        volume.field(extra).forbidden(errors, "may not specify more than 1 volume type");
    }
}

/// A path that stays below where it starts.
pub(super) fn descending_problems(path: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if path.starts_with('/') {
        problems.push("must be a relative path".to_owned());
    }
    problems.extend(backstep_problems(path));
    problems
}

pub(super) fn backstep_problems(path: &str) -> Vec<String> {
    match path.split('/').any(|part| part == "..") {
        true => vec!["must not contain '..'".to_owned()],
        false => Vec::new(),
    }
}
