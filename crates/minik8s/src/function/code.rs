//! From a file, a folder or an archive to the code of a Function.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minik8s_functions::{LARGEST_SOURCE, zip};
use minik8s_meta::function::FunctionCode;

/// Names that no code needs.
const LEFT_OUT: &[&str] = &[".git", "__pycache__", ".venv", ".DS_Store"];
const MOST_FILES: usize = 16_384;
/// Bytes of an archive; in memory here, and in a file of each node that runs it.
const LARGEST_ARCHIVE: usize = 50 << 20;

/// The code, and the runtime that its files are for.
pub fn read(from: &Path) -> anyhow::Result<(FunctionCode, Option<&'static str>)> {
    let what = || format!("cannot read {}", from.display());
    let found = fs::metadata(from).with_context(what)?;
    if found.is_dir() {
        let mut files = Vec::new();
        gather(from, "", &mut files)?;
        if files.is_empty() {
            bail!("{} has no file", from.display());
        }
        let language = language(files.iter().map(|(name, _)| name.as_str()));
        return Ok((archive(zip::pack(&files).with_context(what)?, from)?, language));
    }
    let content = fs::read(from).with_context(what)?;
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    if content.starts_with(b"PK") || name.ends_with(".zip") {
        return Ok((archive(content, from)?, None));
    }
    if content.len() > LARGEST_SOURCE {
        bail!(
            "{} has {} bytes, more than {LARGEST_SOURCE}: put it into a zip archive or an image",
            from.display(),
            content.len()
        );
    }
    let Ok(source) = String::from_utf8(content) else {
        bail!("{} is neither text nor a zip archive", from.display())
    };
    Ok((FunctionCode { source: Some(source), ..FunctionCode::default() }, language([&*name].into_iter())))
}

fn archive(content: Vec<u8>, from: &Path) -> anyhow::Result<FunctionCode> {
    if content.len() > LARGEST_ARCHIVE {
        bail!(
            "{} has {} bytes packed, more than {LARGEST_ARCHIVE}: make an image with `minik8s image build` and give --image",
            from.display(),
            content.len()
        );
    }
    zip::check(&content).with_context(|| format!("{} cannot be used", from.display()))?;
    Ok(FunctionCode { zip: Some(STANDARD.encode(content)), ..FunctionCode::default() })
}

/// Regular files only, in the order of their names. Links could lead anywhere.
fn gather(folder: &Path, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) -> anyhow::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (path, kind) = (format!("{prefix}{name}"), entry.file_type()?);
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if kind.is_symlink() {
            bail!("{} is a link; put the file itself into the folder", entry.path().display());
        }
        if kind.is_dir() {
            gather(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            if files.len() >= MOST_FILES {
                bail!(
                    "more than {MOST_FILES} files: make an image with `minik8s image build` and give --image"
                );
            }
            files.push((path, fs::read(entry.path())?));
        }
    }
    Ok(())
}

fn language<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<&'static str> {
    let ends = |ends: &[&str]| names.clone().any(|name| ends.iter().any(|end| name.ends_with(end)));
    match (ends(&[".py"]), ends(&[".js", ".mjs", ".cjs"])) {
        (true, false) => Some("python3.11"),
        (false, true) => Some("nodejs"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comes_from_files_folders_and_archives() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hello.py");
        fs::write(&file, "def main(p): return p").unwrap();
        let (code, language) = read(&file).unwrap();
        assert_eq!((code.source.as_deref(), language), (Some("def main(p): return p"), Some("python3.11")));
        let folder = dir.path().join("app");
        fs::create_dir_all(folder.join("lib")).unwrap();
        fs::write(folder.join("index.js"), "exports.main = 1").unwrap();
        fs::write(folder.join("lib/a.js"), "x").unwrap();
        let (code, language) = read(&folder).unwrap();
        assert_eq!(language, Some("nodejs"));
        let packed = STANDARD.decode(code.zip.unwrap()).unwrap();
        zip::check(&packed).unwrap();
        let zipped = dir.path().join("app.zip");
        fs::write(&zipped, &packed).unwrap();
        assert!(read(&zipped).unwrap().0.zip.is_some());
        fs::write(&zipped, &packed[..packed.len() - 3]).unwrap();
        assert!(format!("{:#}", read(&zipped).unwrap_err()).contains("cut off"));
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        assert!(read(&folder).unwrap_err().to_string().contains("is a link"));
        assert!(format!("{:#}", read(&dir.path().join("nope")).unwrap_err()).contains("nope"));
    }
}
