//! A pod network for one node: a bridge, addresses from the node's pod CIDR, host ports.
//!
//! It reaches no other node. A network agent that does writes its own configuration instead and the node's
//! [`Config::pod_cidr`](crate::Config) stays empty.

use std::io;
use std::path::Path;

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use crate::Config;

/// Writes the configuration where containerd looks for it.
pub fn write(config: &Config, cidr: Ipv4Net) -> io::Result<()> {
    let dir = config.cni_dir().join("net.d");
    std::fs::create_dir_all(&dir)?;
    let list = conflist(&config.instance(), cidr, &config.cni_dir().join("state"));
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

/// The name of this agent's bridge. Interface names have room for 15 characters.
pub fn bridge_name(instance: &str) -> String {
    format!("mk-{instance}")
}

fn conflist(instance: &str, cidr: Ipv4Net, state: &Path) -> Value {
    json!({
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
                    "ranges": [[{"subnet": cidr.trunc().to_string()}]],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bridge_belongs_to_the_instance() {
        let list = conflist("0badcafe", "10.42.0.7/24".parse().unwrap(), Path::new("/d/cni/state"));
        assert_eq!(list["plugins"][0]["bridge"], "mk-0badcafe");
        assert_eq!(list["plugins"][0]["ipam"]["ranges"][0][0]["subnet"], "10.42.0.0/24");
        assert!(bridge_name("0badcafe").len() <= 15);
    }
}
