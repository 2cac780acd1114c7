//! Which files of an archive say what it depends on, and their hash. Pure.
//!
//! Only they are seen by whoever fetches the packages, so that other code with the same needs does not need them fetched
//! again. Where a requirement is a path, the whole archive is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minik8s_meta::function::{FunctionSpec, Runtime, runtime};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::zip;

/// Bytes of the hash: enough that nobody finds two inputs with the same.
const KEY: usize = 16;

/// What packages are fetched by.
#[derive(Debug, PartialEq, Eq)]
pub struct Inputs {
    /// The same for the same files and the same runtime.
    pub key: String,
    /// For the program in the pod: which files, and the folder that they are in.
    pub told: Value,
}

/// Nothing where the code asks for nothing, or brings it.
pub fn inputs(spec: &FunctionSpec) -> Option<Inputs> {
    if spec.dependencies.is_some() {
        return None;
    }
    let runtime = spec.runtime.as_deref().and_then(runtime)?;
    let archive = STANDARD.decode(spec.code.as_ref()?.zip.as_ref()?).ok()?;
    let names = zip::names(&archive).ok()?;
    let folder = folder(&names);
    let is_there = |start: &str| names.iter().any(|name| name[folder.len()..].starts_with(start));
    let manifest = manifest(runtime);
    if !names.iter().any(|name| name[folder.len()..] == *manifest.file) {
        return None;
    }
    if manifest.vendored.iter().any(|vendored| is_there(vendored)) {
        return None;
    }
    let is_manifest = |name: &str| name.strip_prefix(folder).is_some_and(|name| (manifest.takes)(name));
    let mut files = zip::read(&archive, is_manifest).ok()?;
    let texts = || files.iter().map(|(_, content)| String::from_utf8_lossy(content));
    let main = files.iter().find(|(name, _)| name[folder.len()..] == *manifest.file)?;
    if !(manifest.asks)(&String::from_utf8_lossy(&main.1)) {
        return None;
    }
    let is_whole = texts().any(|text| (manifest.is_local)(&text));
    if is_whole {
        files = zip::read(&archive, |_| true).ok()?;
    }
    files.sort();
    let chosen: Option<Vec<&String>> = (!is_whole).then(|| files.iter().map(|(name, _)| name).collect());
    Some(Inputs { key: key(runtime, folder, &files), told: json!({"files": chosen, "folder": folder}) })
}

/// How a language's packages are asked for.
struct Manifest {
    file: &'static str,
    /// Folders in which the archive brings them.
    vendored: &'static [&'static str],
    /// Files besides the code that the package client reads.
    takes: fn(&str) -> bool,
    asks: fn(&str) -> bool,
    /// Whether something that is asked for is in the archive itself.
    is_local: fn(&str) -> bool,
}

fn manifest(runtime: &Runtime) -> Manifest {
    match runtime.file {
        "main.py" => Manifest {
            file: "requirements.txt",
            vendored: &["vendor/", "site-packages/", "python/"],
            // It may name others.
            takes: |name| name.ends_with(".txt") && !name.contains('/'),
            asks: |text| lines(text).next().is_some(),
            is_local: |text| lines(text).any(is_path),
        },
        _ => Manifest {
            file: "package.json",
            vendored: &["node_modules/"],
            takes: |name| {
                matches!(name, "package.json" | "package-lock.json" | "npm-shrinkwrap.json" | ".npmrc")
            },
            // What cannot be read is for npm to complain about.
            asks: |text| match serde_json::from_str::<Value>(text) {
                Ok(package) => package["dependencies"].as_object().is_some_and(|all| !all.is_empty()),
                Err(_) => true,
            },
            is_local: |text| ["file:", "\"./", "\"workspaces\""].iter().any(|sign| text.contains(sign)),
        },
    }
}

/// Without comments and what is empty.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let bare = |line: &'_ str| -> usize { line.find(" #").unwrap_or(line.len()) };
    let lines = text.lines().map(move |line| line[..bare(line)].trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Whether a requirement is, or looks like, a file or folder.
fn is_path(line: &str) -> bool {
    let options = ["-e", "--editable", "-f", "--find-links", ".", "/"];
    let archives = [".whl", ".zip", ".tar.gz", ".tgz"];
    options.iter().any(|start| line.starts_with(start))
        || line.contains("file:")
        || line.contains("./")
        || !line.contains("://") && archives.iter().any(|end| line.contains(end))
}

/// A zip of one folder is that folder.
fn folder(names: &[String]) -> &str {
    let Some(end) = names.first().and_then(|name| name.find('/')) else { return "" };
    let folder = &names[0][..=end];
    if names.iter().all(|name| name.starts_with(folder)) { folder } else { "" }
}

/// Names and contents with their lengths, so that no two lists look the same.
fn key(runtime: &Runtime, folder: &str, files: &[(String, Vec<u8>)]) -> String {
    let mut hash = Sha256::new();
    hash.update(runtime.builder.as_bytes());
    for (name, content) in files {
        for part in [&name.as_bytes()[folder.len()..], content] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().take(KEY).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use minik8s_meta::function::FunctionCode;

    use super::*;

    fn of(runtime: &str, files: &[(&str, &str)]) -> Option<Inputs> {
        let files: Vec<(String, Vec<u8>)> =
            files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
        let archive = STANDARD.encode(zip::pack(&files).unwrap());
        inputs(&FunctionSpec {
            runtime: Some(runtime.to_owned()),
            code: Some(FunctionCode { zip: Some(archive), ..FunctionCode::default() }),
            ..FunctionSpec::default()
        })
    }

    #[test]
    fn archive_asks_for_what_it_does_not_bring() {
        let check = |files: &[(&str, &str)], python: bool, node: bool| {
            assert_eq!(of("python3.11", files).is_some(), python, "{files:?}");
            assert_eq!(of("nodejs", files).is_some(), node, "{files:?}");
        };
        let package = r#"{"dependencies": {"left-pad": "1"}}"#;
        check(&[("main.py", "")], false, false);
        check(&[("requirements.txt", "six\n")], true, false);
        check(&[("requirements.txt", "# none\n\n")], false, false);
        check(&[("requirements.txt", "six"), ("vendor/six.py", "")], false, false);
        check(&[("app/main.py", ""), ("app/requirements.txt", "six")], true, false);
        check(&[("main.py", ""), ("app/requirements.txt", "six")], false, false);
        check(&[("package.json", package)], false, true);
        check(&[("package.json", package), ("node_modules/a.js", "")], false, false);
        check(&[("package.json", r#"{"main": "index.js"}"#)], false, false);
        check(&[("package.json", "rubbish")], false, true);
    }

    #[test]
    fn key_is_that_of_what_the_client_reads() {
        let key = |files: &[(&str, &str)]| of("python3.11", files).unwrap().key;
        let one = key(&[("main.py", "1"), ("requirements.txt", "six")]);
        assert_eq!(one, key(&[("main.py", "2"), ("requirements.txt", "six")]), "other code, same packages");
        assert_eq!(one, key(&[("a/main.py", "2"), ("a/requirements.txt", "six")]), "in a folder");
        assert_ne!(one, key(&[("main.py", "1"), ("requirements.txt", "six==1")]));
        assert_ne!(one, key(&[("c.txt", "x"), ("main.py", "1"), ("requirements.txt", "six")]));
        // What is a path may be anything in the archive.
        let local = [("main.py", "1"), ("six.whl", "x"), ("requirements.txt", "./six.whl")];
        let other = [("main.py", "2"), ("six.whl", "x"), ("requirements.txt", "./six.whl")];
        assert_ne!(key(&local), key(&other));
        assert_eq!(of("python3.11", &local).unwrap().told["files"], Value::Null);
        let told = of("python3.11", &[("main.py", "1"), ("requirements.txt", "six")]).unwrap().told;
        assert_eq!(told, json!({"files": ["requirements.txt"], "folder": ""}));
    }

    #[test]
    fn requirements_that_are_paths_are_found() {
        for (line, expected) in [
            ("six", false),
            ("six==1.0 # ./not", false),
            ("./six.whl", true),
            ("six @ file:///x", true),
            ("-e .", true),
            (".", true),
            ("six-1.whl", true),
            ("-r more.txt", false),
            ("six @ https://example.org/six-1.whl", false),
        ] {
            assert_eq!(lines(line).any(is_path), expected, "{line}");
        }
    }
}
