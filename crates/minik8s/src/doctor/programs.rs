//! The programs that a node calls, and whether the one answers that outlives it.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::Finding;

/// Any of the programs does; all are in that Debian package or another of the list.
const NEEDED: [(&[&str], &str, &str); 5] = [
    (&["containerd"], "containerd", "runs the containers"),
    (&["crun", "runc"], "runc", "starts the containers"),
    (&["nft"], "nftables", "leads to Services"),
    (&["conntrack"], "conntrack", "ends connections to Services whose pods are gone"),
    (&["mount"], "mount", "mounts volumes"),
];
const PLUGINS: [&str; 4] = ["bridge", "host-local", "portmap", "loopback"];
const PLUGIN_DIRS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

pub fn check(data_dir: &Path) -> Vec<Finding> {
    let mut findings = vec![match nix::unistd::geteuid().is_root() {
        true => Finding::fine("running as root"),
        false => Finding::broken("not running as root: containers and their network need it", "use sudo"),
    }];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    findings.extend(needed(&folders));
    findings.push(plugins(&PLUGIN_DIRS.map(PathBuf::from)));
    findings.extend(answers(&data_dir.join("containerd/containerd.sock")));
    findings
}

fn needed(folders: &[PathBuf]) -> Vec<Finding> {
    let of = |(programs, package, why): &(&[&str], &str, &str)| {
        let found = programs.iter().find(|program| is_in(folders, program));
        match found {
            Some(program) => Finding::fine(format!("{program} is installed")),
            None => Finding::broken(
                format!("{} is not installed: it {why}", programs.join(" or ")),
                format!("apt-get install {package}"),
            ),
        }
    };
    NEEDED.iter().map(of).collect()
}

fn plugins(folders: &[PathBuf]) -> Finding {
    let missing: Vec<&str> = PLUGINS.into_iter().filter(|plugin| !is_in(folders, plugin)).collect();
    match missing.is_empty() {
        true => Finding::fine("the network plugins are installed"),
        false => Finding::broken(
            format!("network plugins are missing: {}", missing.join(", ")),
            "apt-get install containernetworking-plugins",
        ),
    }
}

/// Nothing where no node has run yet.
fn answers(socket: &Path) -> Option<Finding> {
    if !socket.exists() {
        return None;
    }
    Some(match UnixStream::connect(socket) {
        Ok(_) => Finding::fine(format!("containerd answers at {}", socket.display())),
        Err(error) => Finding::warning(
            format!("containerd does not answer at {}: {error}", socket.display()),
            "start minik8s, which starts it; if it does not, its log is beside that socket",
        ),
    })
}

fn is_in<P: AsRef<Path>>(folders: &[P], program: &str) -> bool {
    folders.iter().any(|folder| folder.as_ref().join(program).is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::Severity;
    use super::*;

    #[test]
    fn what_is_missing_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let folders = [scratch.path().to_owned()];
        let broken =
            |findings: &[Finding]| findings.iter().filter(|found| found.severity == Severity::Broken).count();
        assert_eq!(broken(&needed(&folders)), NEEDED.len());
        assert!(plugins(&folders).text.contains("portmap"));
        for name in ["containerd", "crun", "nft", "conntrack", "mount"].into_iter().chain(PLUGINS) {
            std::fs::write(scratch.path().join(name), "").unwrap();
        }
        assert_eq!(broken(&needed(&folders)), 0);
        assert_eq!(plugins(&folders).severity, Severity::Fine);
    }

    #[test]
    fn containerd_answers_or_not() {
        let scratch = tempfile::tempdir().unwrap();
        let socket = scratch.path().join("containerd.sock");
        assert_eq!(answers(&socket), None);
        let listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(answers(&socket).unwrap().severity, Severity::Fine);
        drop(listener);
        assert_eq!(answers(&socket).unwrap().severity, Severity::Warning);
    }
}
