//! Kernel settings without which Services do not work.
//!
//! A machine that forwards IPv6 packets stops to believe router advertisements, and with them goes its default route after
//! a while: interfaces that had believed them, and bear the node's address, are told to do so nevertheless. It never
//! touches an interface that did not believe them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use minik8s_meta::IpFamily;

/// Packets between interfaces are forwarded.
const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";
const FORWARD_V6: &str = "/proc/sys/net/ipv6/conf/all/forwarding";
/// Packets between two pods on one bridge pass nftables: else a pod's answer to a neighbour that reached it
/// through a Service would come from the wrong address.
const BRIDGE: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
const BRIDGE_V6: &str = "/proc/sys/net/bridge/bridge-nf-call-ip6tables";

/// Sets what is not set for these families; returns what cannot be set, with what to do. The uplinks are the interfaces that
/// have the node's addresses.
pub fn prepare(families: &[IpFamily], uplinks: &[String]) -> Vec<String> {
    if !Path::new(BRIDGE).exists() {
        let mut modprobe = Command::new("modprobe");
        let quiet = modprobe.arg("br_netfilter").stdin(Stdio::null()).stdout(Stdio::null());
        // Whether it worked, the file tells.
        let _ = quiet.stderr(Stdio::null()).status();
    }
    if families.contains(&IpFamily::V6) {
        uplinks.iter().for_each(|uplink| keep_advertisements(Path::new("/proc/sys/net/ipv6/conf"), uplink));
    }
    let problem = |path: &str| {
        let error = switch_on(path).err()?;
        let name = path.trim_start_matches("/proc/sys/").replace('/', ".");
        Some(format!(
            "cannot set {name} ({error}): Services may not work; run `sysctl -w {name}=1` on this machine"
        ))
    };
    let settings = families.iter().flat_map(|family| match family {
        IpFamily::V4 => [FORWARD, BRIDGE],
        IpFamily::V6 => [FORWARD_V6, BRIDGE_V6],
    });
    settings.filter_map(problem).collect()
}

/// 1 is "unless packets are forwarded", 2 "always".
fn keep_advertisements(settings: &Path, uplink: &str) {
    let path = settings.join(uplink).join("accept_ra");
    let is_forwarding =
        fs::read_to_string(settings.join("all/forwarding")).is_ok_and(|text| text.trim() == "1");
    let believes = fs::read_to_string(&path).is_ok_and(|text| text.trim() == "1");
    if believes && !is_forwarding {
        // Where it cannot be written, forwarding cannot be switched on either, which is told.
        let _ = fs::write(path, "2");
    }
}

fn switch_on(path: &str) -> std::io::Result<()> {
    if fs::read_to_string(path)?.trim() == "1" {
        return Ok(());
    }
    fs::write(path, "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn router_advertisements_are_believed_by_a_router_as_before() {
        let check = |forwarding: &str, before: &str, after: &str| {
            let dir = tempfile::tempdir().unwrap();
            for (name, value) in [("all/forwarding", forwarding), ("eth0/accept_ra", before)] {
                let path = dir.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, value).unwrap();
            }
            keep_advertisements(dir.path(), "eth0");
            let found = fs::read_to_string(dir.path().join("eth0/accept_ra")).unwrap();
            assert_eq!(found.trim(), after, "{forwarding} {before}");
        };
        check("0\n", "1\n", "2");
        check("0\n", "0\n", "0");
        // Who forwards already does not believe them now.
        check("1\n", "1\n", "1");
    }
}
