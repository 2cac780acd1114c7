//! A sandbox's port of the node's bridge, as containerd tells of it.

use std::path::PathBuf;

use serde_json::Value;

use crate::config::PodPort;

/// Out of what containerd tells of a sandbox: the interface that is in no sandbox and is no bridge, and the addresses of
/// the one at its other end.
pub fn port_of(info: &str) -> Option<PodPort> {
    let info: Value = serde_json::from_str(info).ok()?;
    let interfaces = info["cniResult"]["Interfaces"].as_object()?;
    let is_inside = |interface: &Value| interface["Sandbox"].as_str().is_some_and(|name| !name.is_empty());
    let addresses = |interface: &Value| -> Vec<_> {
        let all = interface["IPConfigs"].as_array().into_iter().flatten();
        all.filter_map(|config| config["IP"].as_str()?.parse().ok()).collect()
    };
    let inside = interfaces.iter().filter(|(name, interface)| *name != "lo" && is_inside(interface));
    let (_, inside) = inside.into_iter().find(|(_, interface)| !addresses(interface).is_empty())?;
    let mut outside =
        interfaces.iter().filter(|(name, interface)| name.starts_with("veth") && !is_inside(interface));
    let (device, _) = outside.next()?;
    Some((device.clone(), inside["Mac"].as_str()?.to_owned(), addresses(inside)))
}

/// The file of the network namespace that a sandbox's interfaces are in.
pub fn network_namespace_of(info: &str) -> Option<PathBuf> {
    let info: Value = serde_json::from_str(info).ok()?;
    let interfaces = info["cniResult"]["Interfaces"].as_object()?;
    let mut files = interfaces.values().filter_map(|interface| interface["Sandbox"].as_str());
    files.find(|file| file.starts_with('/')).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn port_is_found_in_what_containerd_tells() {
        let interfaces = json!({
            "eth0": {"IPConfigs": [{"IP": "10.244.0.2", "Gateway": "10.244.0.1"}], "Mac": "0a:58:0a:f4:00:02",
                "Sandbox": "/var/run/netns/cni-1"},
            "lo": {"IPConfigs": [{"IP": "127.0.0.1"}, {"IP": "::1"}], "Mac": "00:00:00:00:00:00",
                "Sandbox": "/var/run/netns/cni-1"},
            "mk-0badcafe": {"IPConfigs": null, "Mac": "16:de:7c:8c:26:d5", "Sandbox": ""},
            "veth12345678": {"IPConfigs": null, "Mac": "9e:8c:2e:5b:9c:1f", "Sandbox": ""},
        });
        let info = json!({"cniResult": {"Interfaces": interfaces}}).to_string();
        let port = ("veth12345678".to_owned(), "0a:58:0a:f4:00:02".to_owned(), vec![[10, 244, 0, 2].into()]);
        assert_eq!(port_of(&info), Some(port));
        assert_eq!(network_namespace_of(&info), Some(PathBuf::from("/var/run/netns/cni-1")));
        for none in ["", "{}", r#"{"cniResult": null}"#, r#"{"cniResult": {"Interfaces": {}}}"#] {
            assert_eq!((port_of(none), network_namespace_of(none)), (None, None), "{none}");
        }
    }
}
