//! `minik8s gpu results`: writes what was brought back into a folder, and checks it once more on the way.

use std::path::Path;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use sha2::{Digest, Sha256};

use super::{Progress, say};
use crate::kinds::{GpuJob, ResultFile, path_problem};
use crate::program::hex;

pub async fn run(client: Client, job: &GpuJob, folder: &Path, show: Progress) -> anyhow::Result<()> {
    let status = job.status.clone().unwrap_or_default();
    if !status.phase.is_over() {
        bail!("the job is {:?}; its results come at its end", status.phase);
    }
    if status.results.is_empty() {
        bail!("the job is {:?} and has brought nothing back", status.phase);
    }
    if let Some(claim) = &job.spec.results.claim {
        bail!(
            "the results are in the claim {claim}, in the folder {}: mount it in a pod to read them",
            job.name()
        );
    }
    let mut parts = Parts::new(Api::namespaced(client, job.namespace()));
    let (mut written, mut failed) = (String::new(), Vec::new());
    for file in &status.results {
        if let Some(problem) = &file.problem {
            failed.push(format!("{}: {problem}", file.name));
            continue;
        }
        let content = parts.read(file, |done| show(&file.name, done, file.size)).await?;
        if hex(&Sha256::digest(&content)) != file.sha256 {
            failed.push(format!("{}: its hash is not that of the file on the cluster", file.name));
            continue;
        }
        write(folder, &file.name, &content)?;
        written += &format!("{}\n", folder.join(&file.name).display());
    }
    drop(show);
    say(&written)?;
    if failed.is_empty() { Ok(()) } else { bail!("not all results are there:\n  {}", failed.join("\n  ")) }
}

/// The ConfigMaps in which results were kept, read one after the other.
pub(super) struct Parts {
    api: Api<ConfigMap>,
    last: Option<(String, ConfigMap)>,
}

impl Parts {
    pub fn new(api: Api<ConfigMap>) -> Self {
        Parts { api, last: None }
    }

    /// The content of a file; `progress` hears how much of it is there.
    pub async fn read(&mut self, file: &ResultFile, progress: impl Fn(i64)) -> anyhow::Result<Vec<u8>> {
        let mut content = Vec::new();
        for place in &file.parts {
            let (part, key) = place.split_once('/').unwrap_or((place, ""));
            // Files follow each other through the parts: older ones are not needed again.
            if self.last.as_ref().is_none_or(|(name, _)| name != part) {
                let found = self.api.get(part).await;
                let found = found.with_context(|| format!("cannot read the ConfigMap {part}"))?;
                self.last = Some((part.to_owned(), found));
            }
            let data = self.last.as_ref().and_then(|(_, part)| part.binary_data.as_ref());
            let piece = data.and_then(|data| data.get(key)).with_context(|| format!("{place} is missing"))?;
            content.extend_from_slice(&piece.0);
            progress(i64::try_from(content.len()).unwrap_or(i64::MAX));
        }
        Ok(content)
    }
}

/// Below the folder and nowhere else.
fn write(folder: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    if let Some(problem) = path_problem(name) {
        bail!("the name {name:?} of a result {problem}");
    }
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
}
