//! The programs that a node calls.

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

pub fn check() -> Vec<Finding> {
    let mut findings = vec![match nix::unistd::geteuid().is_root() {
        true => Finding::fine("running as root"),
        false => Finding::broken("not running as root: containers and their network need it", "use sudo"),
    }];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    findings.extend(NEEDED.iter().map(|(programs, package, why)| {
        let found = programs.iter().find(|program| is_in(&folders, program));
        match found {
            Some(program) => Finding::fine(format!("{program} is installed")),
            None => Finding::broken(
                format!("{} is not installed: it {why}", programs.join(" or ")),
                format!("apt-get install {package}"),
            ),
        }
    }));
    let plugin_dirs = PLUGIN_DIRS.map(PathBuf::from);
    let missing: Vec<&str> = PLUGINS.into_iter().filter(|plugin| !is_in(&plugin_dirs, plugin)).collect();
    findings.push(match missing.is_empty() {
        true => Finding::fine("the network plugins are installed"),
        false => Finding::broken(
            format!("network plugins are missing: {}", missing.join(", ")),
            "apt-get install containernetworking-plugins",
        ),
    });
    findings
}

fn is_in<P: AsRef<Path>>(folders: &[P], program: &str) -> bool {
    folders.iter().any(|folder| folder.as_ref().join(program).is_file())
}
