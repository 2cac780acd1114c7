//! Kernel parameters that belong to the pod alone.

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::{Pod, items};

pub const CHECK: Check = Check {
    id: "sysctls",
    level: Level::Baseline,
    revisions: &[
        Revision::since(0, |pod| find(pod, 0)),
        Revision::since(27, |pod| find(pod, 27)),
        Revision::since(29, |pod| find(pod, 29)),
        Revision::since(32, |pod| find(pod, 32)),
        Revision::since(37, |pod| find(pod, 37)),
    ],
};

/// Each with the minor version since which it is allowed.
const SAFE: [(&str, u64); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

fn find(pod: &Pod<'_>, minor: u64) -> Option<Violation> {
    let is_safe = |name: &str| SAFE.iter().any(|(safe, since)| *safe == name && *since <= minor);
    let names = items(&pod.security()["sysctls"]).map(|one| one["name"].as_str().unwrap_or_default());
    let bad: Vec<&str> = names.filter(|name| !is_safe(name)).collect();
    (!bad.is_empty()).then(|| Violation { reason: "forbidden sysctls", detail: bad.join(", ") })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::check::testing::{expect, verdict};

    fn pod(names: &[&str]) -> Value {
        let sysctls: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
        json!({"spec": {"securityContext": {"sysctls": sysctls}}})
    }

    #[test]
    fn sysctls_are_allowed_since_their_version() {
        for (name, since) in SAFE {
            for minor in 0..=37 {
                let expected =
                    if minor >= since { String::new() } else { format!("forbidden sysctls ({name})") };
                assert_eq!(verdict(&CHECK, minor, &pod(&[name])), expected, "v1.{minor}");
            }
        }
    }

    #[test]
    fn sysctls_of_the_node_are_forbidden() {
        expect(
            &CHECK,
            37,
            &[
                (json!({"spec": {}}), ""),
                (pod(&[]), ""),
                (
                    pod(&["net.core.somaxconn", "net.ipv4.tcp_syncookies", "kernel.msgmax"]),
                    "forbidden sysctls (net.core.somaxconn, kernel.msgmax)",
                ),
                (pod(&["net/ipv4/tcp_syncookies"]), "forbidden sysctls (net/ipv4/tcp_syncookies)"),
            ],
        );
    }
}
