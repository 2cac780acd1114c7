//! Images with who uses them, and which of them may go. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;

use crate::cri::ImageRecord;
use crate::image::{PAUSE_IMAGE, normalize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageEntry {
    pub id: String,
    pub names: Vec<String>,
    pub size: u64,
    /// Pods and containers that have it or will need it.
    pub used_by: BTreeSet<String>,
    /// It came from a registry and can come again. Others were loaded or made here.
    pub pulled: bool,
}

/// Who uses an image, by each name and id that it is known by.
#[derive(Debug, Default)]
pub struct Uses(BTreeMap<String, BTreeSet<String>>);

impl Uses {
    pub fn add(&mut self, image: &str, user: &str) {
        if !image.is_empty() {
            self.0.entry(image.to_owned()).or_default().insert(user.to_owned());
        }
    }

    /// A pod needs its images before it has containers, and those of its volumes have none.
    pub fn add_pod(&mut self, pod: &Pod) {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let (Some(spec), false) = (&pod.spec, matches!(phase, Some("Succeeded" | "Failed"))) else { return };
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let images = containers.filter_map(|container| container.image.as_deref());
        let debuggers = spec.ephemeral_containers.iter().flatten();
        let debuggers = debuggers.filter_map(|container| container.image.as_deref());
        let volumes = spec.volumes.iter().flatten();
        let volumes = volumes.filter_map(|volume| volume.image.as_ref()?.reference.as_deref());
        for image in images.chain(debuggers).chain(volumes) {
            self.add(&normalize(image), &pod_label(pod));
        }
    }

    fn of(&self, image: &ImageRecord) -> BTreeSet<String> {
        let names = image.tags.iter().chain(&image.digests).chain([&image.id]);
        let mut users: BTreeSet<String> =
            names.filter_map(|name| self.0.get(name)).flatten().cloned().collect();
        if image.tags.iter().any(|tag| tag == PAUSE_IMAGE) {
            users.insert("every pod".to_owned());
        }
        users
    }
}

pub fn pod_label(pod: &Pod) -> String {
    let of = |name: &Option<String>| name.clone().unwrap_or_default();
    format!("{}/{}", of(&pod.metadata.namespace), of(&pod.metadata.name))
}

/// The largest first.
pub fn entries(images: Vec<ImageRecord>, uses: &Uses) -> Vec<ImageEntry> {
    let entry = |image: ImageRecord| ImageEntry {
        used_by: uses.of(&image),
        pulled: !image.digests.is_empty(),
        names: if image.tags.is_empty() { image.digests } else { image.tags },
        size: image.size,
        id: image.id,
    };
    let mut entries: Vec<ImageEntry> = images.into_iter().map(entry).collect();
    entries.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.id.cmp(&b.id)));
    entries
}

/// Which images are to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// This one, by its id or a name.
    One(String),
    /// All that nobody uses and that can be pulled again.
    Pulled,
    /// All that nobody uses.
    All,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRemovable {
    #[error("no image {0:?} on this node")]
    NotFound(String),
    #[error("image {0:?} is used by {1}")]
    Used(String, String),
}

/// Those of the selection that nobody uses.
pub fn unused(entries: Vec<ImageEntry>, selection: &Selection) -> Result<Vec<ImageEntry>, NotRemovable> {
    let Selection::One(wanted) = selection else {
        let all = *selection == Selection::All;
        return Ok(entries.into_iter().filter(|e| e.used_by.is_empty() && (all || e.pulled)).collect());
    };
    let full_name = normalize(wanted);
    let is_it = |entry: &ImageEntry| entry.id == *wanted || entry.names.contains(&full_name);
    let entry = entries.into_iter().find(is_it).ok_or_else(|| NotRemovable::NotFound(wanted.clone()))?;
    if !entry.used_by.is_empty() {
        let users: Vec<&str> = entry.used_by.iter().map(String::as_str).collect();
        return Err(NotRemovable::Used(wanted.clone(), users.join(", ")));
    }
    Ok(vec![entry])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn image(id: &str, tag: &str, size: u64, pulled: bool) -> ImageRecord {
        let digests = if pulled { vec![format!("{tag}@sha256:{id}")] } else { Vec::new() };
        ImageRecord { id: id.into(), tags: vec![tag.into()], digests, size, ..ImageRecord::default() }
    }

    fn all() -> Vec<ImageEntry> {
        let pod = |name: &str, phase: &str, image: &str| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"namespace": "shop", "name": name},
                "spec": {"containers": [{"name": "c", "image": image}],
                         "volumes": [{"name": "v", "image": {"reference": "models:1"}}]},
                "status": {"phase": phase},
            }))
            .unwrap()
        };
        let mut uses = Uses::default();
        uses.add("sha256:5", "shop/running");
        uses.add_pod(&pod("starting", "Pending", "busybox"));
        uses.add_pod(&pod("ended", "Succeeded", "once:1"));
        let images = vec![
            image("sha256:1", "docker.io/library/busybox:latest", 2, true),
            image("sha256:2", "docker.io/library/once:1", 70, true),
            image("sha256:3", "localhost/made-here:1", 50, false),
            image("sha256:4", "docker.io/library/models:1", 900, true),
            image("sha256:5", "docker.io/library/web:1", 10, true),
            image("sha256:6", PAUSE_IMAGE, 1, false),
        ];
        entries(images, &uses)
    }

    #[test]
    fn image_is_used_by_containers_and_by_pods_that_start() {
        let used: Vec<(u64, usize)> = all().iter().map(|entry| (entry.size, entry.used_by.len())).collect();
        assert_eq!(used, [(900, 1), (70, 0), (50, 0), (10, 1), (2, 1), (1, 1)]);
        assert!(all()[0].used_by.contains("shop/starting"), "by a volume");
    }

    #[test]
    fn used_image_is_never_removed() {
        let check = |selection: Selection, want: Result<&[&str], &str>| {
            let found = unused(all(), &selection);
            let ids = found.map(|found| found.into_iter().map(|entry| entry.id).collect::<Vec<_>>());
            match want {
                Ok(want) => assert_eq!(ids.unwrap(), want, "{selection:?}"),
                Err(want) => assert!(ids.unwrap_err().to_string().contains(want), "{selection:?}"),
            }
        };
        check(Selection::Pulled, Ok(&["sha256:2"]));
        check(Selection::All, Ok(&["sha256:2", "sha256:3"]));
        check(Selection::One("localhost/made-here:1".into()), Ok(&["sha256:3"]));
        check(Selection::One("once:1".into()), Ok(&["sha256:2"]));
        check(Selection::One("busybox".into()), Err("used by shop/starting"));
        check(Selection::One("sha256:5".into()), Err("used by shop/running"));
        check(Selection::One(PAUSE_IMAGE.into()), Err("every pod"));
        check(Selection::One("none".into()), Err("no image"));
    }
}
