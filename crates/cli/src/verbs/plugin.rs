//! `plugin`, and the programs named `kubectl-NAME` that commands which are none run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::error::{Error, Result};
use crate::output;

const PREFIX: &str = "kubectl-";

/// See which programs on PATH add commands
#[derive(Debug, Subcommand)]
pub enum Plugin {
    List(List),
}

/// List programs named kubectl-NAME on PATH
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s plugin list")]
pub struct List {
    /// Only names, without directories
    #[arg(long)]
    name_only: bool,
}

pub fn run(Plugin::List(verb): &Plugin) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let (mut first, mut warnings) = (BTreeMap::new(), 0);
    let found = on_path(&path);
    if found.is_empty() {
        return Err(Error::plain("unable to find any kubectl plugins in your PATH"));
    }
    output::line("The following compatible plugins are available:\n");
    for program in found {
        let name = program.file_name().unwrap_or_default().to_owned();
        match verb.name_only {
            true => output::line(name.display()),
            false => output::line(program.display()),
        }
        if !is_executable(&program) {
            output::remark(format_args!(
                "  - warning: {} identified as a kubectl plugin, but it is not executable",
                program.display()
            ));
            warnings += 1;
        }
        if let Some(other) = first.get(&name) {
            let other: &PathBuf = other;
            output::remark(format_args!(
                "  - warning: {} is overshadowed by a similarly named plugin: {}",
                program.display(),
                other.display()
            ));
            warnings += 1;
        }
        first.entry(name).or_insert(program);
    }
    match warnings {
        0 => Ok(()),
        1 => Err(Error::plain("one plugin warning was found")),
        count => Err(Error::plain(format!("{count} plugin warnings were found"))),
    }
}

fn on_path(path: &std::ffi::OsStr) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in std::env::split_paths(path).filter(|directory| !directory.as_os_str().is_empty()) {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        let mut here: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        here.retain(|file| {
            let named = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
            named && file.is_file()
        });
        here.sort();
        found.append(&mut here);
    }
    found
}

fn is_executable(program: &std::path::Path) -> bool {
    program.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
}

/// The program that the words name, and the words that are left for it. The longest name wins: `a b c` is
/// `kubectl-a-b-c`, else `kubectl-a-b` with `c`.
fn program(words: &[OsString], path: &std::ffi::OsStr) -> Option<(PathBuf, usize)> {
    let names: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().replace('-', "_"))
        .take_while(|word| !word.starts_with('_') && !word.contains('/'))
        .collect();
    (1..=names.len()).rev().find_map(|count| {
        let name = format!("{PREFIX}{}", names[..count].join("-"));
        let mut places = std::env::split_paths(path).map(|directory| directory.join(&name));
        places.find(|place| place.is_file() && is_executable(place)).map(|place| (place, count))
    })
}

/// Becomes the plugin that the arguments name; returns if there is none, or it cannot be run.
pub fn become_one(arguments: &[OsString]) -> Option<std::io::Error> {
    let words = arguments.get(1..)?;
    let (program, used) = program(words, &std::env::var_os("PATH").unwrap_or_default())?;
    Some(std::process::Command::new(program).args(&words[used..]).exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_name_of_a_plugin_wins() {
        let dir = tempfile::tempdir().unwrap();
        for (name, mode) in [("kubectl-a", 0o755), ("kubectl-a-b_c", 0o755), ("kubectl-x", 0o644)] {
            let file = dir.path().join(name);
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let check = |line: &str, expected: Option<(&str, usize)>| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let found = program(&words, dir.path().as_os_str());
            let expected = expected.map(|(name, used)| (dir.path().join(name), used));
            assert_eq!(found, expected, "{line}");
        };
        check("a x", Some(("kubectl-a", 1)));
        check("a b-c d", Some(("kubectl-a-b_c", 2)));
        check("a --flag b-c", Some(("kubectl-a", 1)));
        check("x", None);
        check("../a", None);
        assert_eq!(on_path(dir.path().as_os_str()).len(), 3);
    }
}
