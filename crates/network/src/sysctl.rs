//! Kernel settings without which Services do not work.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Packets between interfaces are forwarded.
const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
/// Packets between two pods on one bridge pass nftables: else a pod's answer to a neighbour that reached it
/// through a Service would come from the wrong address.
const BRIDGE: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/// Sets what is not set; returns what cannot be set, with what to do.
pub fn prepare() -> Vec<String> {
    if !Path::new(BRIDGE).exists() {
        let mut modprobe = Command::new("modprobe");
        let quiet = modprobe.arg("br_netfilter").stdin(Stdio::null()).stdout(Stdio::null());
        // Whether it worked, the file tells.
        let _ = quiet.stderr(Stdio::null()).status();
    }
    let problem = |path: &str| {
        let error = switch_on(path).err()?;
        let name = path.trim_start_matches("/proc/sys/").replace('/', ".");
        Some(format!(
            "cannot set {name} ({error}): Services may not work; run `sysctl -w {name}=1` on this machine"
        ))
    };
    [FORWARD, BRIDGE].into_iter().filter_map(problem).collect()
}

fn switch_on(path: &str) -> std::io::Result<()> {
    if fs::read_to_string(path)?.trim() == "1" {
        return Ok(());
    }
    fs::write(path, "1")
}
