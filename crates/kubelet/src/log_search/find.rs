//! The log files that a search is about.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minik8s_meta::LabelSelector;
use serde::Serialize;

use super::Search;
use crate::ended_logs;

/// Whose a line is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// The pod is gone.
    pub ended: bool,
}

#[derive(Debug)]
pub struct LogFile {
    pub path: PathBuf,
    pub is_compressed: bool,
}

/// A file, and whose lines are in it.
#[derive(Debug)]
pub struct Log {
    pub place: Arc<Place>,
    pub file: LogFile,
}

/// Labels by a pod's UID.
pub type PodLabels = HashMap<String, BTreeMap<String, String>>;

/// `labels` are those of pods that are there. Blocks.
pub fn logs(search: &Search, labels: &PodLabels, logs_dir: &Path, ended_dir: &Path) -> Vec<Log> {
    let mut found = Vec::new();
    for (folder, name) in entries(logs_dir) {
        let parts: Vec<&str> = name.split('_').collect();
        let [namespace, pod, uid] = parts[..] else { continue };
        let labels = labels.get(uid);
        if !is_wanted(search, namespace, pod) || !selects(&search.labels, labels) {
            continue;
        }
        for (container_dir, container) in entries(&folder) {
            let files = entries(&container_dir).into_iter().filter(|(path, _)| path.is_file());
            add(&mut found, search, (namespace, pod, &container, false), files.map(|(path, _)| path));
        }
    }
    let kept = if search.ended { ended_logs::list(ended_dir) } else { Vec::new() };
    for pod in kept {
        if !is_wanted(search, &pod.namespace, &pod.name) || !selects(&search.labels, Some(&pod.labels)) {
            continue;
        }
        let folder = ended_dir.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid));
        for container in &pod.containers {
            let files = ended_logs::files(&folder, container).unwrap_or_default();
            let place = (pod.namespace.as_str(), pod.name.as_str(), container.as_str(), true);
            add(&mut found, search, place, files.into_iter().map(|(_, _, path)| path));
        }
    }
    // Large files first: threads that take turns end together.
    found.sort_by_cached_key(|log| {
        std::cmp::Reverse(fs::metadata(&log.file.path).map_or(0, |about| about.len()))
    });
    found
}

fn is_wanted(search: &Search, namespace: &str, pod: &str) -> bool {
    (search.namespace.is_empty() || search.namespace == namespace)
        && search.pod.as_ref().is_none_or(|wanted| wanted == pod)
}

fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    if selector.is_everything() {
        return true;
    }
    let labels = labels
        .map(|labels| labels.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect());
    selector.matches(labels.as_ref())
}

fn add(
    found: &mut Vec<Log>,
    search: &Search,
    (namespace, pod, container, ended): (&str, &str, &str, bool),
    files: impl Iterator<Item = PathBuf>,
) {
    if search.container.as_ref().is_some_and(|wanted| wanted != container) {
        return;
    }
    let place = Place { namespace: namespace.into(), pod: pod.into(), container: container.into(), ended };
    let place = Arc::new(place);
    found
        .extend(files.map(|path| Log { place: place.clone(), file: LogFile { path, is_compressed: ended } }));
}

/// What a folder holds, but never a link: a link is nobody's log.
fn entries(folder: &Path) -> Vec<(PathBuf, String)> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    let own = all.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    own.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?))).collect()
}
