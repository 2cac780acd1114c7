//! The files that go to the cluster, as one tar: the user's below `work/`, scripts and hashes below `meta/`. Written to a
//! file, not to memory: a claim may hold much.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use super::SubmitFlags;
use crate::kinds::{GpuJob, SlurmCluster};
use crate::script;

const MOST: u64 = 1 << 30;

/// What is brought to the cluster: the tar, and the digest by which it is known there.
pub struct Package {
    pub tar: File,
    pub digest: String,
}

enum Content {
    Text(String),
    File(PathBuf),
}

impl Package {
    pub fn make(job: &GpuJob, cluster: &SlurmCluster, flags: &SubmitFlags) -> anyhow::Result<Self> {
        let files = files(job, flags)?;
        if files.is_empty() {
            bail!("the source holds no file");
        }
        Self::of(&files, &script::batch(job, cluster), script::build(job, cluster).as_deref())
    }

    fn of(files: &BTreeMap<String, Content>, batch: &str, build: Option<&str>) -> anyhow::Result<Self> {
        let mut tar = tar::Builder::new(tempfile::tempfile()?);
        let mut manifest = String::new();
        let mut total = 0;
        for (name, content) in files {
            let path = format!("work/{name}");
            let digest = match content {
                Content::Text(text) => append(&mut tar, &path, 0o600, text.as_bytes(), text.len() as u64)?,
                Content::File(file) => {
                    let file = File::open(file).with_context(|| format!("cannot read {name}"))?;
                    let data = file.metadata()?;
                    total += data.len();
                    if total > MOST {
                        bail!("the source is larger than 1 GiB");
                    }
                    // Scripts of a claim stay programs.
                    let mode = 0o600 | (std::os::unix::fs::PermissionsExt::mode(&data.permissions()) & 0o100);
                    append(&mut tar, &path, mode, file, data.len())?
                }
            };
            manifest += &sum_line(&digest, name);
        }
        for (name, text) in
            [Some(("batch.sh", batch)), build.map(|text| ("build.sh", text))].into_iter().flatten()
        {
            let digest =
                append(&mut tar, &format!("meta/{name}"), 0o600, text.as_bytes(), text.len() as u64)?;
            manifest += &sum_line(&digest, &format!("../meta/{name}"));
        }
        append(&mut tar, "meta/manifest", 0o600, manifest.as_bytes(), manifest.len() as u64)?;
        let mut tar = tar.into_inner()?;
        tar.flush()?;
        Ok(Package { tar, digest: hex(&Sha256::digest(&manifest)) })
    }

    /// From its beginning, for one upload.
    pub fn reader(&self) -> std::io::Result<File> {
        let mut file = self.tar.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }
}

fn files(job: &GpuJob, flags: &SubmitFlags) -> anyhow::Result<BTreeMap<String, Content>> {
    let mut files = BTreeMap::new();
    if let Some(claim) = &flags.source_claim {
        let path = job.spec.source.volume_claim.as_ref().and_then(|claim| claim.path.as_deref());
        walk(&path.map_or(claim.clone(), |path| claim.join(path)), "", &mut files)?;
    }
    if let Some(config) = &flags.source_config {
        // A ConfigMap's files are links into a folder that changes as a whole.
        for entry in std::fs::read_dir(config).context("cannot read the ConfigMap")? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with("..") && entry.path().is_file() {
                files.insert(name, Content::File(entry.path()));
            }
        }
    }
    for (name, text) in &job.spec.source.files {
        files.insert(name.clone(), Content::Text(text.clone()));
    }
    Ok(files)
}

/// Regular files only: a link could lead out of the claim.
fn walk(dir: &Path, prefix: &str, files: &mut BTreeMap<String, Content>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &format!("{name}/"), files)?;
        } else if kind.is_file() {
            files.insert(name, Content::File(entry.path()));
        }
    }
    Ok(())
}

/// Adds a file and gives its hash.
fn append<W: Write>(
    tar: &mut tar::Builder<W>,
    path: &str,
    mode: u32,
    content: impl Read,
    size: u64,
) -> anyhow::Result<String> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    let mut hashed = Hashed { content, digest: Sha256::new() };
    tar.append_data(&mut header, path, &mut hashed)?;
    Ok(hex(&hashed.digest.finalize()))
}

struct Hashed<R> {
    content: R,
    digest: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.digest.update(&buffer[..read]);
        Ok(read)
    }
}

/// A line for `sha256sum -c`, which has its own way with names that would break a line.
fn sum_line(digest: &str, name: &str) -> String {
    match name.contains(['\\', '\n']) {
        true => format!("\\{digest}  {}\n", name.replace('\\', "\\\\").replace('\n', "\\n")),
        false => format!("{digest}  {name}\n"),
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::quote;
    use crate::remote::UPLOAD;

    /// The real script unpacks what was packed, with names that a shell would make much of.
    #[test]
    fn what_is_packed_arrives_whole() {
        let target = tempfile::tempdir().unwrap();
        let dir = target.path().join("it's $(id) \n x");
        let dir = dir.to_str().unwrap();
        let names = ["a.cu", "sub/b c.h", "$(id)", "`x`", "'q'", "back\\slash", "new\nline", "*"];
        let files = names
            .iter()
            .map(|name| ((*name).to_owned(), Content::Text(format!("content of {name}"))))
            .collect();
        let package = Package::of(&files, "#!/bin/sh\n", Some("make\n")).unwrap();
        let upload = |package: &Package| {
            let line = quote::script(UPLOAD, &[dir, &package.digest]);
            let input = Stdio::from(package.reader().unwrap());
            Command::new("sh").args(["-c", &line]).stdin(input).output().unwrap()
        };
        for _ in 0..2 {
            let output = upload(&package);
            assert!(output.status.success(), "{output:?}");
        }
        for name in names {
            let content = std::fs::read_to_string(format!("{dir}/work/{name}")).unwrap();
            assert_eq!(content, format!("content of {name}"));
        }
        assert_eq!(std::fs::read_to_string(format!("{dir}/meta/uploaded")).unwrap().trim(), package.digest);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(dir).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
        // Cut off in the middle it is not there.
        package.tar.set_len(2048).unwrap();
        assert!(!upload(&package).status.success());
        assert!(!std::path::Path::new(&format!("{dir}/meta/uploaded")).exists());
    }
}
