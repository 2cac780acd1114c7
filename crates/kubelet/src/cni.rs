//! A pod network for one node: a bridge, addresses from the node's pod CIDRs, host ports. An IPv6 address is usable at once:
//! the bridge plugin looks for no duplicates in pods unless it is told to.
//!
//! The way to pods of other nodes is somebody else's business.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use minik8s_meta::Cidrs;
use serde_json::{Value, json};

use crate::Config;

/// Writes the configuration where containerd looks for it.
pub fn write(config: &Config, cidr: Cidrs) -> io::Result<()> {
    if cidr.v6().is_some() {
        make_bridge(&bridge_name(&config.instance()), config.pod_mtu);
    }
    let dir = config.cni_dir().join("net.d");
    std::fs::create_dir_all(&dir)?;
    let list = conflist(&config.instance(), cidr, config.pod_mtu, &config.cni_dir().join("state"));
    let text = format!("{list:#}\n");
    let path = dir.join("10-minik8s.conflist");
    if std::fs::read_to_string(&path).ok().as_deref() == Some(&text) {
        return Ok(());
    }
    // containerd watches the directory: it must never see half a file.
    let new = dir.join(".new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, path)
}

/// Made by the plugin, with the first pod, the bridge would look for duplicates of its own IPv6 address for two seconds, and
/// be no gateway meanwhile. What cannot be done here the plugin does, or says why not.
fn make_bridge(name: &str, mtu: Option<u32>) {
    let mut add = Command::new("ip");
    add.args(["link", "add", "name", name]);
    if let Some(mtu) = mtu {
        add.args(["mtu", &mtu.to_string()]);
    }
    let made = add.args(["type", "bridge"]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    let setting = Path::new("/proc/sys/net/ipv6/conf").join(name).join("accept_dad");
    if let Err(error) = made.and_then(|_| std::fs::write(setting, "0")) {
        tracing::debug!(%error, "the pods' bridge looks for duplicates of its address");
    }
}

/// The name of this agent's bridge. Interface names have room for 15 characters.
pub fn bridge_name(instance: &str) -> String {
    format!("mk-{instance}")
}

fn conflist(instance: &str, cidr: Cidrs, mtu: Option<u32>, state: &Path) -> Value {
    // A set of ranges for each family: a pod gets an address of every set.
    let ranges: Vec<Value> = cidr.iter().map(|range| json!([{"subnet": range.to_string()}])).collect();
    let mut list = json!({
        "cniVersion": "0.4.0",
        "name": format!("minik8s-{instance}"),
        "plugins": [
            {
                "type": "bridge",
                "bridge": bridge_name(instance),
                "isGateway": true,
                "isDefaultGateway": true,
                "hairpinMode": true,
                // The network agent does it, for what leaves the cluster alone.
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": state,
                    "ranges": ranges,
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    if let Some(mtu) = mtu {
        list["plugins"][0]["mtu"] = mtu.into();
    }
    list
}

/// Removes what the plugins of this agent left in the host's NAT table, as after pods that were killed.
pub fn remove_rules(instance: &str) -> io::Result<()> {
    remove_rules_of(("iptables-save", "iptables-restore"), instance)?;
    if Path::new("/proc/net/if_inet6").exists() {
        remove_rules_of(("ip6tables-save", "ip6tables-restore"), instance)?;
    }
    Ok(())
}

fn remove_rules_of((save, restore): (&str, &str), instance: &str) -> io::Result<()> {
    let saved = Command::new(save).args(["-t", "nat"]).stderr(Stdio::null()).output()?;
    let script = removal(&String::from_utf8_lossy(&saved.stdout), instance);
    if script.is_empty() {
        return Ok(());
    }
    let mut restore = Command::new(restore).arg("--noflush").stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = restore.stdin.take() {
        stdin.write_all(script.as_bytes())?;
    }
    restore.wait().map(drop)
}

/// The rules that carry our network's name, taken back, and the chains they lead to. Pure.
fn removal(saved: &str, instance: &str) -> String {
    let name = format!("name: \\\"minik8s-{instance}\\\"");
    let ours: Vec<&str> =
        saved.lines().filter(|line| line.starts_with("-A ") && line.contains(&name)).collect();
    let target = |line: &&str| {
        let (_, target) = line.rsplit_once(" -j ")?;
        let target = target.split(' ').next()?;
        target.starts_with("CNI-").then(|| target.to_owned())
    };
    let chains: BTreeSet<String> = ours.iter().filter_map(target).collect();
    if ours.is_empty() {
        return String::new();
    }
    let mut script = String::from("*nat\n");
    let chain_of = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
    for line in ours.iter().filter(|line| !chains.contains(&chain_of(line))) {
        script += &format!("-D {}\n", &line[3..]);
    }
    chains.iter().for_each(|chain| script += &format!("-F {chain}\n"));
    chains.iter().for_each(|chain| script += &format!("-X {chain}\n"));
    script + "COMMIT\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_rules_go() {
        let rule = |chain: &str, network: &str, rest: &str| {
            format!(r#"-A {chain} -m comment --comment "name: \"{network}\" id: \"1\"" {rest}"#)
        };
        let ours = rule("POSTROUTING", "minik8s-0badcafe", "-j CNI-1");
        let inner = rule("CNI-1", "minik8s-0badcafe", "-j MASQUERADE");
        let other = rule("POSTROUTING", "minik8s-00000000", "-j CNI-2");
        let saved = format!("*nat\n:CNI-1 - [0:0]\n{ours}\n{other}\n{inner}\nCOMMIT\n");
        let want = format!("*nat\n-D {}\n-F CNI-1\n-X CNI-1\nCOMMIT\n", &ours[3..]);
        assert_eq!(removal(&saved, "0badcafe"), want);
        assert_eq!(removal(&saved, "ffffffff"), "");
    }

    #[test]
    fn the_bridge_belongs_to_the_instance() {
        let list =
            conflist("0badcafe", "10.42.0.7/24".parse().unwrap(), Some(1450), Path::new("/d/cni/state"));
        assert_eq!(list["plugins"][0]["mtu"], 1450);
        assert_eq!(list["plugins"][0]["bridge"], "mk-0badcafe");
        assert_eq!(list["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.42.0.0/24");
        assert!(bridge_name("0badcafe").len() <= 15);
        let both = "10.42.0.0/24,fd42:0:0:1::/64".parse().unwrap();
        let list = conflist("0badcafe", both, None, Path::new("/d/cni/state"));
        assert_eq!(
            list["plugins"][0]["ipam"]["ranges"],
            json!([[{"subnet": "10.42.0.0/24"}], [{"subnet": "fd42:0:0:1::/64"}]])
        );
    }
}
