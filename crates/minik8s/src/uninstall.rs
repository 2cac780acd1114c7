//! `minik8s uninstall`: takes back what `make install` put on this machine.
//!
//! `packaging/install` leaves a list of what it installed beside the program, so nothing is guessed and no other file is
//! touched. Units are stopped first and pods ended, because nobody could end them later. The cluster's data and the
//! settings stay unless they are to be purged. What a package manager installed is left to the package manager.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;

use crate::teardown::TeardownFlags;
use crate::{output, teardown};

/// Where systemd keeps its state, and so: whether it runs this machine.
const SYSTEMD: &str = "/run/systemd/system";

#[derive(Debug, Args)]
pub struct UninstallFlags {
    /// The data dir of the server or agent that was installed
    #[arg(long, value_name = "DIR", default_value = "/var/lib/minik8s")]
    pub data_dir: PathBuf,
    /// Remove the cluster's data and the settings too
    #[arg(long)]
    pub purge: bool,
}

pub async fn run(flags: UninstallFlags) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let list = list_beside(&program);
    let Ok(text) = std::fs::read_to_string(&list) else {
        bail!(
            "{} was not installed by `make install` (there is no {}): remove it as it came, e.g. apt-get remove minik8s",
            program.display(),
            list.display()
        );
    };
    let installed =
        Installed::parse(&text).with_context(|| format!("cannot understand {}", list.display()))?;
    stop(&installed.units)?;
    if flags.data_dir.is_dir() {
        teardown::run(&TeardownFlags { data_dir: flags.data_dir.clone(), purge: flags.purge }).await?;
    }
    let settings = if flags.purge { installed.settings.as_slice() } else { &[] };
    // The list goes last: after a failure it says what there is left to do.
    for path in installed.units.iter().chain(settings).chain([&installed.program, &list]) {
        remove(path)?;
    }
    if is_systemd() {
        systemctl(&["daemon-reload"])?;
    }
    Ok(output::line(match flags.purge {
        true => "minik8s is uninstalled; its data and settings are gone.".to_owned(),
        false => format!("minik8s is uninstalled; its data stays in {}.", flags.data_dir.display()),
    })?)
}

/// What `packaging/install` wrote: a kind and a path on each line.
#[derive(Debug, PartialEq, Eq)]
struct Installed {
    program: PathBuf,
    units: Vec<PathBuf>,
    settings: Vec<PathBuf>,
}

impl Installed {
    fn parse(text: &str) -> anyhow::Result<Installed> {
        let (mut programs, mut units, mut settings) = (Vec::new(), Vec::new(), Vec::new());
        for line in text.lines() {
            let (kind, path) = line.split_once(' ').with_context(|| format!("{line:?} names no path"))?;
            if !path.starts_with('/') {
                bail!("{path:?} is not an absolute path");
            }
            match kind {
                "program" => programs.push(path.into()),
                "unit" => units.push(path.into()),
                "settings" => settings.push(path.into()),
                _ => bail!("{kind:?} is nothing that is installed"),
            }
        }
        let program = programs.pop().context("it names no program")?;
        Ok(Installed { program, units, settings })
    }
}

/// `PREFIX/share/minik8s/installed` for `PREFIX/bin/minik8s`.
fn list_beside(program: &Path) -> PathBuf {
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    prefix.join("share/minik8s/installed")
}

fn is_systemd() -> bool {
    Path::new(SYSTEMD).is_dir()
}

fn stop(units: &[PathBuf]) -> anyhow::Result<()> {
    let names: Vec<&str> = units.iter().filter_map(|unit| unit.file_name()?.to_str()).collect();
    match is_systemd() {
        true => systemctl(&[&["disable", "--now"], names.as_slice()].concat()),
        false => Ok(()),
    }
}

fn systemctl(words: &[&str]) -> anyhow::Result<()> {
    let told = Command::new("systemctl").args(words).output().context("cannot run systemctl")?;
    if !told.status.success() {
        bail!("systemctl {}: {}", words.join(" "), String::from_utf8_lossy(&told.stderr).trim());
    }
    Ok(())
}

fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_list_names_program_units_and_settings() {
        let list = "program /usr/local/bin/minik8s\nunit /u/a.service\nsettings /etc/default/a\nunit /u/b c.service\n";
        let want = Installed {
            program: "/usr/local/bin/minik8s".into(),
            units: vec!["/u/a.service".into(), "/u/b c.service".into()],
            settings: vec!["/etc/default/a".into()],
        };
        assert_eq!(Installed::parse(list).unwrap(), want);
        for wrong in ["", "unit /u", "program bin/minik8s", "program", "folder /\nprogram /p"] {
            assert!(Installed::parse(wrong).is_err(), "{wrong:?}");
        }
        let list = list_beside(Path::new("/usr/local/bin/minik8s"));
        assert_eq!(list, Path::new("/usr/local/share/minik8s/installed"));
    }
}
