//! The image of GPU jobs' pods: this very program, and the machine's ssh with the libraries that both load. No registry has
//! it, so a node makes it when the first such pod arrives.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use futures::future::BoxFuture;

use super::own::{OURSELVES, make_apart};
use super::{ImagePlace, OwnImage, Recipe};

/// As the pods of GPU jobs name it.
pub const SLURM_SUBMIT: &str = concat!("minik8s.io/slurm-submit:", env!("CARGO_PKG_VERSION"));

const SSH: &str = "/usr/bin/ssh";
/// For ssh's question for a password; without it keys still work.
const SHELL: &str = "/bin/busybox";
/// Whom the machine trusts, for a slurmrestd behind a certificate of the public; without it others still work.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

pub(super) struct SlurmSubmit;

impl OwnImage for SlurmSubmit {
    fn serves(&self, name: &str) -> bool {
        name == SLURM_SUBMIT
    }

    fn make<'a>(&'a self, _: &'a str, place: ImagePlace<'a>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { make_apart(&["slurm-submit"], place.data_dir).await })
    }
}

/// What is in it.
pub fn recipe() -> io::Result<Recipe> {
    let ssh =
        read(SSH).map_err(|error| io::Error::other(format!("{error}: apt-get install openssh-client")))?;
    let mut recipe = Recipe::new(SLURM_SUBMIT)
        .directory("tmp", 0o1777)
        .directory("run", 0o755)
        .file(
            "etc/passwd",
            0o644,
            b"root:x:0:0::/:/bin/sh\nslurm-submit:x:65532:65532::/tmp:/bin/sh\n".to_vec(),
        )
        .file("etc/group", 0o644, b"root:x:0:\nslurm-submit:x:65532:\n".to_vec())
        .file("etc/nsswitch.conf", 0o644, b"hosts: files dns\n".to_vec())
        .file("minik8s", 0o755, read(OURSELVES)?)
        .file(SSH.trim_start_matches('/'), 0o755, ssh)
        .env("PATH", "/usr/bin:/bin")
        .user("65532:65532")
        .entrypoint(&["/minik8s"]);
    if let Ok(shell) = std::fs::read(SHELL) {
        recipe =
            recipe.file("bin/busybox", 0o755, shell).link("bin/sh", "busybox").link("bin/cat", "busybox");
    }
    if let Ok(authorities) = std::fs::read(AUTHORITIES) {
        recipe = recipe.file(AUTHORITIES.trim_start_matches('/'), 0o644, authorities);
    }
    let libraries: BTreeSet<PathBuf> = [OURSELVES, SSH]
        .into_iter()
        .map(libraries)
        .collect::<io::Result<Vec<_>>>()?
        .concat()
        .into_iter()
        .collect();
    for library in libraries {
        let content = read(&library)?;
        recipe = recipe.file(library.to_string_lossy().trim_start_matches('/'), 0o755, content);
    }
    Ok(recipe)
}

pub(super) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    std::fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The libraries that a program loads, as the loader says.
pub(super) fn libraries(program: &str) -> io::Result<Vec<PathBuf>> {
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| PathBuf::from(program));
    let output = Command::new("ldd").arg(&program).output()?;
    Ok(loaded(&String::from_utf8_lossy(&output.stdout)))
}

/// `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`, `/lib64/ld-linux-x86-64.so.2 (0x...)`.
fn loaded(said: &str) -> Vec<PathBuf> {
    let paths = said.lines().filter_map(|line| {
        let path = line.split_once("=>").map_or(line, |(_, path)| path).trim();
        path.split(' ').next().filter(|path| path.starts_with('/'))
    });
    paths.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_ldd() {
        let said = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld.so.2 (0x3)\n";
        assert_eq!(loaded(said), [PathBuf::from("/lib/x/libc.so.6"), PathBuf::from("/lib64/ld.so.2")]);
        assert_eq!(loaded("\tnot a dynamic executable\n"), Vec::<PathBuf>::new());
    }
}
