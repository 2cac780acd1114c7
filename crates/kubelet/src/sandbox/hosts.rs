//! The `/etc/hosts` that a pod's containers see. Pure.

use std::fmt::Write as _;

use super::config::{hostname, hostname_override};
use crate::pod::DesiredPod;

/// `host` is the node's own file, which pods in the node's network see.
pub fn hosts_file(
    desired_pod: &DesiredPod,
    ips: &[String],
    cluster_domain: &str,
    node_name: &str,
    host: &str,
) -> String {
    let mut text = String::new();
    if desired_pod.host_network() {
        text.push_str("# Kubernetes-managed hosts file (host network).\n");
        text.push_str(host);
    } else {
        text.push_str("# Kubernetes-managed hosts file.\n");
        text.push_str("127.0.0.1\tlocalhost\n");
        text.push_str("::1\tlocalhost ip6-localhost ip6-loopback\n");
        text.push_str("fe00::\tip6-localnet\nfe00::\tip6-mcastprefix\n");
        text.push_str("fe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n");
        let name = hostname(desired_pod, node_name);
        let short = name.split('.').next().unwrap_or_default();
        let subdomain = desired_pod.spec().and_then(|s| s.subdomain.as_deref()).filter(|s| !s.is_empty());
        let subdomain = subdomain.filter(|_| hostname_override(desired_pod).is_none());
        for ip in ips {
            let _ = match subdomain {
                Some(sub) => {
                    let domain = format!("{sub}.{}.svc.{cluster_domain}", desired_pod.namespace);
                    writeln!(text, "{ip}\t{short}.{domain}\t{short}")
                }
                None => writeln!(text, "{ip}\t{name}"),
            };
        }
    }
    let aliases = desired_pod.spec().and_then(|spec| spec.host_aliases.as_ref());
    if let Some(aliases) = aliases.filter(|list| !list.is_empty()) {
        text.push_str("\n# Entries added by HostAliases.\n");
        for alias in aliases {
            let names = alias.hostnames.clone().unwrap_or_default().join("\t");
            let _ = writeln!(text, "{}\t{names}", alias.ip);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn last_lines(spec: Value, count: usize) -> Vec<String> {
        let pod = json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": spec});
        let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
        let ips = ["10.0.0.2".to_owned()];
        let text = hosts_file(&desired_pod, &ips, "cluster.local", "node", "192.0.2.1 node\n");
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines[lines.len() - count..].to_vec()
    }

    #[test]
    fn lines() {
        assert_eq!(last_lines(json!({"containers": []}), 1), ["10.0.0.2\tweb"]);
        assert_eq!(
            last_lines(json!({"containers": [], "subdomain": "s"}), 1),
            ["10.0.0.2\tweb.s.ns.svc.cluster.local\tweb"]
        );
        assert_eq!(last_lines(json!({"containers": [], "hostNetwork": true}), 1), ["192.0.2.1 node"]);
        let aliases = json!([{"ip": "1.2.3.4", "hostnames": ["a", "b"]}]);
        assert_eq!(
            last_lines(json!({"containers": [], "hostAliases": aliases}), 2),
            ["# Entries added by HostAliases.", "1.2.3.4\ta\tb"]
        );
    }
}
