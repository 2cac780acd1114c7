//! What this host can do, as far as the container runtime must know.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, statfs};

/// Bit of CAP_SYS_RESOURCE, without which nobody may lower an OOM score.
const CAP_SYS_RESOURCE: u64 = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupMode {
    V1,
    /// v1 controllers with a v2 tree beside them.
    Hybrid,
    V2,
}

/// The OCI runtime that containerd starts containers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OciRuntime {
    Crun,
    Runc,
}

impl OciRuntime {
    pub fn binary(self) -> &'static str {
        match self {
            OciRuntime::Crun => "crun",
            OciRuntime::Runc => "runc",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub cgroups: CgroupMode,
    pub may_lower_oom_score: bool,
    /// Best first; the first one is the default.
    pub runtimes: Vec<OciRuntime>,
    pub cni_bin_dir: PathBuf,
    pub snapshotter: &'static str,
}

impl Host {
    /// Looks at the host. `data_dir` must exist.
    pub fn detect(data_dir: &Path) -> Host {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let cgroups = cgroup_mode(&mounts);
        let installed: Vec<_> =
            [OciRuntime::Crun, OciRuntime::Runc].into_iter().filter(|r| runs(r.binary())).collect();
        Host {
            cgroups,
            may_lower_oom_score: has_capability(&status, CAP_SYS_RESOURCE),
            runtimes: usable_runtimes(&installed, cgroups),
            cni_bin_dir: cni_bin_dir(),
            snapshotter: snapshotter(data_dir),
        }
    }
}

/// crun is the faster one but refuses hybrid cgroups.
fn usable_runtimes(installed: &[OciRuntime], cgroups: CgroupMode) -> Vec<OciRuntime> {
    let works = |r: &&OciRuntime| !(cgroups == CgroupMode::Hybrid && **r == OciRuntime::Crun);
    installed.iter().filter(works).copied().collect()
}

fn cgroup_mode(mounts: &str) -> CgroupMode {
    let has = |kind: &str| mounts.lines().any(|line| line.split(' ').nth(2) == Some(kind));
    match (has("cgroup"), has("cgroup2")) {
        (true, true) => CgroupMode::Hybrid,
        (true, false) => CgroupMode::V1,
        _ => CgroupMode::V2,
    }
}

fn has_capability(status: &str, bit: u64) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << bit) != 0
}

fn runs(program: &str) -> bool {
    let silent = Stdio::null;
    Command::new(program)
        .arg("--version")
        .stdin(silent())
        .stdout(silent())
        .stderr(silent())
        .status()
        .is_ok_and(|status| status.success())
}

/// Where distributions put the standard CNI plugins.
fn cni_bin_dir() -> PathBuf {
    let known = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"];
    let found = known.into_iter().find(|dir| Path::new(dir).join("bridge").exists());
    PathBuf::from(found.unwrap_or(known[0]))
}

/// An overlay cannot lie on an overlay.
fn snapshotter(data_dir: &Path) -> &'static str {
    match statfs(data_dir) {
        Ok(fs) if fs.filesystem_type() == OVERLAYFS_SUPER_MAGIC => "native",
        _ => "overlayfs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_modes() {
        let check = |mounts: &str, want: CgroupMode| assert_eq!(cgroup_mode(mounts), want, "{mounts}");
        check("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0", CgroupMode::V2);
        check("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0", CgroupMode::V1);
        check("cgroup /c/cpu cgroup rw 0 0\ncgroup2 /c/unified cgroup2 rw 0 0", CgroupMode::Hybrid);
        check("", CgroupMode::V2);
    }

    #[test]
    fn capabilities_are_read_from_the_status_file() {
        let check = |status: &str, want: bool| {
            assert_eq!(has_capability(status, CAP_SYS_RESOURCE), want, "{status}");
        };
        check("CapPrm:\t0\nCapEff:\t000001ffffffffff\n", true);
        check("CapEff:\t000001fffeffffff\n", false);
        check("CapEff:\tnonsense\n", false);
        check("", false);
    }

    #[test]
    fn crun_is_left_out_on_hybrid_cgroups() {
        use OciRuntime::*;
        let check = |cgroups, want: &[OciRuntime]| assert_eq!(usable_runtimes(&[Crun, Runc], cgroups), want);
        check(CgroupMode::V2, &[Crun, Runc]);
        check(CgroupMode::V1, &[Crun, Runc]);
        check(CgroupMode::Hybrid, &[Runc]);
    }
}
