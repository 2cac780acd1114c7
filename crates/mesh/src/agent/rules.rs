//! The rules in a pod's network namespace that lead its connections to its proxy, as text for `nft -f -`.

use std::path::Path;
use std::process::Stdio;

use minik8s_meta::mesh::{INBOUND_PORT, OUTBOUND_PORT, SIDECAR_UID};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// TCP that the pod's processes send elsewhere, and TCP that comes to it. What the proxy itself sends, and what stays in
/// the pod, is let alone: so are probes, whose connections the node's agent makes inside the pod's network. Nobody else
/// reaches the proxy's own ports. The proxy takes IPv4: whoever comes by IPv6 would meet no policy, so connections are refused,
/// but for those of the pod itself. The table is made anew if it is there already.
pub fn ruleset() -> String {
    format!(
        "table inet minik8s-mesh {{ }}
delete table inet minik8s-mesh
table inet minik8s-mesh {{
  chain guard {{
    type filter hook prerouting priority -150; policy accept;
    iifname != \"lo\" tcp dport {{ {OUTBOUND_PORT}, {INBOUND_PORT} }} drop
  }}
  chain unproxied {{
    type filter hook input priority 0; policy accept;
    iifname != \"lo\" meta nfproto ipv6 tcp flags & (fin | syn | rst | ack) == syn reject with tcp reset
  }}
  chain inbound {{
    type nat hook prerouting priority -100; policy accept;
    iifname \"lo\" return
    meta nfproto ipv4 meta l4proto tcp redirect to :{INBOUND_PORT}
  }}
  chain outbound {{
    type nat hook output priority -100; policy accept;
    meta skuid {SIDECAR_UID} return
    oifname \"lo\" return
    ip daddr 127.0.0.0/8 return
    meta nfproto ipv4 meta l4proto tcp redirect to :{OUTBOUND_PORT}
  }}
}}
"
    )
}

/// The rules; and sockets of the pod may have as many connections waiting as its proxy wants.
const SET: &str = "echo 16384 >/proc/sys/net/core/somaxconn || true; exec nft -f -";

/// Sets the rules in a network namespace, given as a file. Nothing of the pod runs yet.
pub async fn apply(netns: &Path) -> Result<(), String> {
    let mut net = std::ffi::OsString::from("--net=");
    net.push(netns);
    let mut command = Command::new("nsenter");
    command.arg(net).args(["sh", "-c", SET]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start nsenter: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        let written = stdin.write_all(ruleset().as_bytes()).await;
        written.map_err(|error| format!("cannot tell nft its rules: {error}"))?;
    }
    let output = child.wait_with_output().await.map_err(|error| format!("nft: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("nft: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_spare_the_proxy_and_the_pod_itself() {
        let golden = r#"table inet minik8s-mesh { }
delete table inet minik8s-mesh
table inet minik8s-mesh {
  chain guard {
    type filter hook prerouting priority -150; policy accept;
    iifname != "lo" tcp dport { 15001, 15006 } drop
  }
  chain unproxied {
    type filter hook input priority 0; policy accept;
    iifname != "lo" meta nfproto ipv6 tcp flags & (fin | syn | rst | ack) == syn reject with tcp reset
  }
  chain inbound {
    type nat hook prerouting priority -100; policy accept;
    iifname "lo" return
    meta nfproto ipv4 meta l4proto tcp redirect to :15006
  }
  chain outbound {
    type nat hook output priority -100; policy accept;
    meta skuid 1337 return
    oifname "lo" return
    ip daddr 127.0.0.0/8 return
    meta nfproto ipv4 meta l4proto tcp redirect to :15001
  }
}
"#;
        assert_eq!(ruleset(), golden);
    }
}
