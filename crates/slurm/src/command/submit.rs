//! `minik8s gpu submit`: a GPUJob of a manifest, of the lab's flat form, or of files and flags.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{flat, say};
use crate::kinds::GpuJob;

#[derive(Debug, Args)]
pub struct SubmitArguments {
    /// Files or folders to bring to the cluster
    #[arg(value_name = "FILE", conflicts_with = "manifest", required_unless_present = "manifest")]
    files: Vec<PathBuf>,
    /// A GPUJob, or the flat form with partition, threadNum, gpu-num, codePath and so on
    #[arg(short = 'f', long = "filename", value_name = "FILE.yaml")]
    manifest: Option<PathBuf>,
    /// The job's name; by default the first file's
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The SlurmCluster; the only one by default
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The command that compiles, on the login node; by default nvcc for .cu files
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// The command that the job runs; by default the compiled program
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// GPUs of the job
    #[arg(long, value_name = "N")]
    gpus: Option<i64>,
    /// Slurm's partition
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// The time limit, e.g. 00:10:00
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Files to bring back, e.g. '*.csv'; several times for several
    #[arg(long, value_name = "PATTERN")]
    results: Vec<String>,
}

pub async fn run(arguments: SubmitArguments, jobs: &Api<GpuJob>) -> anyhow::Result<()> {
    let job = match &arguments.manifest {
        Some(path) => of_manifest(path)?,
        None => of_files(&arguments)?,
    };
    let made = jobs.create(&PostParams::default(), &job).await?;
    say(&format!("gpujob.minik8s.io/{} created\n", made.name()))
}

fn of_manifest(path: &Path) -> anyhow::Result<GpuJob> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let value: Value =
        serde_saphyr::from_str(&text).with_context(|| format!("{} is no YAML", path.display()))?;
    let beside = path.parent().unwrap_or(Path::new("."));
    let job = match value["apiVersion"] == "minik8s.io/v1" {
        true => value,
        false => flat::convert(&value, |code| read_sources(&[beside.join(code)]))
            .with_context(|| format!("{}", path.display()))?,
    };
    serde_json::from_value(job).with_context(|| format!("{} is no GPUJob", path.display()))
}

fn of_files(arguments: &SubmitArguments) -> anyhow::Result<GpuJob> {
    let files = read_sources(&arguments.files)?;
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None => default_name(arguments.files.first())?,
    };
    let (build, run) = default_commands(&files, &name);
    let build = arguments.build.clone().or(build.filter(|_| arguments.run.is_none()));
    let Some(run) = arguments.run.clone().or(run) else { bail!("say what the job runs: --run COMMAND") };
    let job = json!({
        "metadata": {"name": name},
        "spec": {
            "cluster": arguments.cluster,
            "source": {"files": files},
            "build": build,
            "run": run,
            "slurm": {"gpus": arguments.gpus, "partition": arguments.partition, "time": arguments.time},
            "results": {"files": arguments.results},
        },
    });
    Ok(serde_json::from_value(job)?)
}

/// `matmul` of `./src/Mat_Mul.cu`.
fn default_name(first: Option<&PathBuf>) -> anyhow::Result<String> {
    let stem = first.and_then(|path| path.file_stem()).unwrap_or_default().to_string_lossy().to_lowercase();
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = name.trim_matches('-').to_owned();
    if name.is_empty() { bail!("give the job a name: --name NAME") } else { Ok(name) }
}

/// With a Makefile `make`; with .cu files nvcc, and the program that it makes.
pub(super) fn default_commands(
    files: &BTreeMap<String, String>,
    name: &str,
) -> (Option<String>, Option<String>) {
    let sources: Vec<String> =
        files.keys().filter(|file| file.ends_with(".cu")).map(|file| crate::quote::word(file)).collect();
    if files.contains_key("Makefile") || files.contains_key("makefile") {
        return (Some("make".to_owned()), Some(format!("./{name}")));
    }
    match sources.is_empty() {
        true => (None, None),
        false => (Some(format!("nvcc -O2 -o {name} {}", sources.join(" "))), Some(format!("./{name}"))),
    }
}

/// Files by name; those of a folder by their path in it.
fn read_sources(paths: &[PathBuf]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for path in paths {
        let what = || format!("cannot read {}", path.display());
        if std::fs::metadata(path).with_context(what)?.is_dir() {
            read_folder(path, "", &mut files)?;
        } else {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.insert(name, std::fs::read_to_string(path).with_context(what)?);
        }
    }
    Ok(files)
}

fn read_folder(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.file_type()? {
            kind if kind.is_dir() => read_folder(&entry.path(), &format!("{name}/"), files)?,
            kind if kind.is_file() => {
                let text = std::fs::read_to_string(entry.path());
                let text = text
                    .with_context(|| format!("{} is no text: use a volumeClaim", entry.path().display()))?;
                files.insert(name, text);
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_commands_have_defaults() {
        let name = |path: &str| default_name(Some(&PathBuf::from(path))).ok();
        assert_eq!(name("./src/Mat_Mul.cu").as_deref(), Some("mat-mul"));
        assert_eq!(name("_.cu"), None);
        let files = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        let (build, run) = default_commands(&files(&["a.cu", "b c.cu", "x.h"]), "a");
        assert_eq!(build.as_deref(), Some("nvcc -O2 -o a 'a.cu' 'b c.cu'"));
        assert_eq!(run.as_deref(), Some("./a"));
        assert_eq!(default_commands(&files(&["Makefile", "a.cu"]), "a").0.as_deref(), Some("make"));
        assert_eq!(default_commands(&files(&["a.py"]), "a"), (None, None));
    }
}
