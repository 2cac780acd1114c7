//! The packages that code says it needs: `requirements.txt` or `package.json` of a folder without packages of its own.
//!
//! pip or npm of this machine fetch them, with this machine's settings: a pod of the cluster may have no way to an index, and
//! would need the credentials for it. They become one layer in the registry in the server, which instances mount. Nothing
//! of the packages is run here: no build from source, no scripts of npm's.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use kube::Api;
use minik8s_kubelet::image::Recipe;
use minik8s_meta::function::Function;
use minik8s_meta::image_repository::REGISTRY_HOST;
use minik8s_registry::client::{MANIFEST, Repository};
use serde_json::Value;

use crate::image::add_files;
use crate::output;

/// Digits of the digest that the image is tagged with, for people to see.
const TAG: usize = 12;

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Python(PathBuf),
    Node(PathBuf),
}

/// The image with what the code needs, once it is in the registry; nothing where it needs nothing.
pub async fn push(
    functions: &Api<Function>,
    name: &str,
    from: Option<&Path>,
) -> anyhow::Result<Option<String>> {
    let Some(wanted) = from.map(wanted).transpose()?.flatten() else { return Ok(None) };
    let dir = tempfile::tempdir().context("no place to put packages")?;
    let folder = tokio::task::spawn_blocking({
        let dir = dir.path().to_owned();
        move || wanted.fetch(&dir)
    });
    let folder = folder.await??;
    let recipe = add_files(Recipe::new("dependencies"), &folder, "").context("cannot read the packages")?;
    let namespace = functions.namespace().unwrap_or("default");
    let (client, repository) = (functions.clone().into_client(), format!("{name}-dependencies"));
    let registry = Repository::new(&client, namespace, &repository);
    let mut blobs = recipe.blobs()?;
    let (digest, manifest) = blobs.pop().context("an image has a manifest")?;
    for (digest, bytes) in &blobs {
        let read = async |offset: i64, length: i64| {
            let from = usize::try_from(offset)?;
            anyhow::Ok(bytes[from..from + usize::try_from(length)?].to_vec())
        };
        let pushed = registry.push_blob(digest, i64::try_from(bytes.len())?, read).await;
        pushed.context("cannot push the function's dependencies")?;
    }
    let tag: String = digest.trim_start_matches("sha256:").chars().take(TAG).collect();
    registry.push_manifest(&tag, manifest, MANIFEST).await?;
    let image = format!("{REGISTRY_HOST}/{namespace}/{repository}@{digest}");
    output::line(format_args!("dependencies are in {image}"))?;
    Ok(Some(image))
}

/// What a folder asks for, unless it brings it.
fn wanted(from: &Path) -> anyhow::Result<Option<Wanted>> {
    if !from.is_dir() {
        return Ok(None);
    }
    let has = |name: &str| from.join(name).exists();
    if has("requirements.txt") && !has("vendor") && !has("site-packages") {
        let path = from.join("requirements.txt");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let asks = text.lines().any(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
        return Ok(asks.then_some(Wanted::Python(path)));
    }
    if has("package.json") && !has("node_modules") {
        let path = from.join("package.json");
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let package: Value =
            serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        let asks = package["dependencies"].as_object().is_some_and(|all| !all.is_empty());
        return Ok(asks.then(|| Wanted::Node(from.to_owned())));
    }
    Ok(None)
}

impl Wanted {
    /// The folder with the packages.
    fn fetch(&self, dir: &Path) -> anyhow::Result<PathBuf> {
        match self {
            Wanted::Python(requirements) => {
                let folder = dir.join("packages");
                let mut pip = Command::new("python3");
                pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]);
                // As the runtime needs them, whatever Python this machine has.
                pip.args(["--python-version", "3.11", "--only-binary=:all:", "--target"]).arg(&folder);
                run(pip.arg("-r").arg(requirements), "pip")?;
                Ok(folder)
            }
            Wanted::Node(from) => {
                for file in ["package.json", "package-lock.json"] {
                    if from.join(file).exists() {
                        std::fs::copy(from.join(file), dir.join(file))?;
                    }
                }
                let verb = if dir.join("package-lock.json").exists() { "ci" } else { "install" };
                let mut npm = Command::new("npm");
                npm.args([verb, "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]);
                run(npm.current_dir(dir), "npm")?;
                Ok(dir.join("node_modules"))
            }
        }
    }
}

fn run(command: &mut Command, name: &str) -> anyhow::Result<()> {
    let output = command.output().with_context(|| {
        format!("cannot run {name}, which fetches dependencies: install it, or put them into the folder (vendor/, node_modules/)")
    })?;
    if !output.status.success() {
        let told = [output.stdout, output.stderr].concat();
        bail!("{name} cannot fetch the dependencies:\n{}", String::from_utf8_lossy(&told).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_asks_for_what_it_does_not_bring() {
        let check = |files: &[(&str, &str)], expected: Option<&str>| {
            let dir = tempfile::tempdir().unwrap();
            for (name, content) in files {
                match name.strip_suffix('/') {
                    Some(folder) => std::fs::create_dir(dir.path().join(folder)).unwrap(),
                    None => std::fs::write(dir.path().join(name), content).unwrap(),
                }
            }
            let found = wanted(dir.path()).unwrap().map(|wanted| match wanted {
                Wanted::Python(_) => "python",
                Wanted::Node(_) => "node",
            });
            assert_eq!(found, expected, "{files:?}");
        };
        let package = r#"{"dependencies": {"left-pad": "1"}}"#;
        check(&[("main.py", "")], None);
        check(&[("requirements.txt", "six\n")], Some("python"));
        check(&[("requirements.txt", "# none\n\n")], None);
        check(&[("requirements.txt", "six\n"), ("vendor/", "")], None);
        check(&[("package.json", package)], Some("node"));
        check(&[("package.json", package), ("node_modules/", "")], None);
        check(&[("package.json", r#"{"main": "index.js"}"#)], None);
        assert!(wanted(Path::new("/nowhere")).unwrap().is_none());
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("package.json"), "rubbish").unwrap();
        assert!(wanted(dir.path()).unwrap_err().to_string().contains("is not JSON"));
    }
}
