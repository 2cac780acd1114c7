//! Where results are kept: a claim, or ConfigMaps that belong to the job and go with it. A ConfigMap holds less than
//! 1 MiB, so large files are cut into parts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::Context;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use minik8s_runtime::owner_reference;

use crate::kinds::{GpuJob, ResultFile};

/// In base64 it must fit into an object.
const PART: usize = 700 << 10;
/// Of all results of a job together.
pub const MOST: usize = 16 << 20;
/// How many ConfigMaps a job may have.
pub const MOST_PARTS: usize = MOST / PART + 2;

/// The name of the ConfigMap with this number.
pub fn part_name(job: &str, number: usize) -> String {
    format!("{job}-results-{number}")
}

/// Writes the files below a folder of the job's own in the claim.
pub fn in_claim(
    claim: &Path,
    job: &GpuJob,
    files: Vec<(ResultFile, File)>,
) -> anyhow::Result<Vec<ResultFile>> {
    let folder = claim.join(job.name());
    let mut kept = Vec::new();
    for (result, mut file) in files {
        let path = folder.join(&result.name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        file.seek(SeekFrom::Start(0))?;
        let mut target = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        std::io::copy(&mut file, &mut target)?;
        target.sync_all()?;
        kept.push(result);
    }
    Ok(kept)
}

/// Writes the files into ConfigMaps. What does not fit is told as a problem of the file.
pub async fn with_job(
    client: &Client,
    job: &GpuJob,
    files: Vec<(ResultFile, File)>,
) -> anyhow::Result<Vec<ResultFile>> {
    let (kept, parts) = pack(job.name(), files)?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), job.namespace());
    for (name, content) in parts {
        let part = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(BTreeMap::from([("minik8s.io/gpujob".to_owned(), job.name().to_owned())])),
                owner_references: Some(vec![owner_reference(job)]),
                ..ObjectMeta::default()
            },
            binary_data: Some(content),
            ..ConfigMap::default()
        };
        match api.create(&PostParams::default(), &part).await {
            // Of a process that was killed before it could say so.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                api.replace(&name, &PostParams::default(), &part).await?;
            }
            other => drop(other.with_context(|| format!("cannot keep the results in the ConfigMap {name}"))?),
        }
    }
    Ok(kept)
}

type Parts = BTreeMap<String, BTreeMap<String, ByteString>>;

/// Fills parts one after the other; a file may lie in several.
fn pack(job: &str, files: Vec<(ResultFile, File)>) -> anyhow::Result<(Vec<ResultFile>, Parts)> {
    let mut parts = Parts::new();
    let (mut number, mut used, mut total) = (0, 0, 0);
    let mut kept = Vec::new();
    for (index, (mut result, mut file)) in files.into_iter().enumerate() {
        let size = usize::try_from(result.size).unwrap_or(usize::MAX);
        if result.problem.is_none() && total + size > MOST {
            result.problem =
                Some("more than 16 MiB of results: name a claim in spec.results.claim".to_owned());
        }
        if result.problem.is_some() {
            kept.push(result);
            continue;
        }
        total += size;
        file.seek(SeekFrom::Start(0))?;
        let mut left = size;
        loop {
            if used == PART {
                (number, used) = (number + 1, 0);
            }
            let mut piece = vec![0; left.min(PART - used)];
            file.read_exact(&mut piece)?;
            (left, used) = (left - piece.len(), used + piece.len());
            let (part, key) = (part_name(job, number), format!("file-{index}"));
            result.parts.push(format!("{part}/{key}"));
            parts.entry(part).or_default().insert(key, ByteString(piece));
            if left == 0 {
                break;
            }
        }
        kept.push(result);
    }
    Ok((kept, parts))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(name: &str, size: usize) -> (ResultFile, File) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; size]).unwrap();
        let result = ResultFile { name: name.to_owned(), size: size as i64, ..ResultFile::default() };
        (result, file)
    }

    #[test]
    fn files_fill_parts_and_lie_across_them() {
        let files = vec![
            file("empty", 0),
            file("small", 10),
            file("large", 2 * PART),
            file("huge", MOST),
            file("last", 5),
        ];
        let (kept, parts) = pack("j", files).unwrap();
        let places: Vec<usize> = kept.iter().map(|result| result.parts.len()).collect();
        assert_eq!(places, [1, 1, 3, 0, 1]);
        assert!(kept[3].problem.as_ref().unwrap().contains("16 MiB"));
        assert!(parts.values().all(|part| part.values().map(|piece| piece.0.len()).sum::<usize>() <= PART));
        for result in kept.iter().filter(|result| result.problem.is_none()) {
            let pieces = result.parts.iter().map(|place| {
                let (part, key) = place.split_once('/').unwrap();
                parts[part][key].0.len()
            });
            assert_eq!(pieces.sum::<usize>() as i64, result.size, "{}", result.name);
        }
        assert!(parts.len() <= MOST_PARTS);
    }
}
