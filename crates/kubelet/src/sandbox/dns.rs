//! A pod's name servers and search domains. Pure.

use k8s_cri::v1 as cri;

use crate::Config;
use crate::pod::DesiredPod;

/// What resolvers take at most.
const MOST_SERVERS: usize = 3;
const MOST_SEARCHES: usize = 32;

/// The node's own resolver configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResolvConf {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

impl ResolvConf {
    pub fn parse(text: &str) -> Self {
        let mut conf = ResolvConf::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => conf.servers.extend(words.next().map(str::to_owned)),
                // The last line wins.
                Some("search" | "domain") => conf.searches = words.map(str::to_owned).collect(),
                Some("options") => conf.options = words.map(str::to_owned).collect(),
                _ => {}
            }
        }
        conf
    }
}

pub fn dns_config(desired_pod: &DesiredPod, config: &Config, host: &ResolvConf) -> cri::DnsConfig {
    let spec = desired_pod.spec();
    let policy = spec.and_then(|s| s.dns_policy.as_deref()).unwrap_or("ClusterFirst");
    let cluster = match policy {
        "ClusterFirst" => !desired_pod.host_network(),
        "ClusterFirstWithHostNet" => true,
        _ => false,
    };
    let mut dns = match policy {
        "None" => cri::DnsConfig::default(),
        _ if cluster && !config.cluster_dns.is_empty() => cluster_dns(&desired_pod.namespace, config, host),
        _ => cri::DnsConfig {
            servers: host.servers.clone(),
            searches: host.searches.clone(),
            options: host.options.clone(),
        },
    };
    if let Some(own) = spec.and_then(|s| s.dns_config.as_ref()) {
        dns.servers.extend(own.nameservers.iter().flatten().cloned());
        dns.searches.extend(own.searches.iter().flatten().cloned());
        for option in own.options.iter().flatten() {
            let name = option.name.clone().unwrap_or_default();
            dns.options.retain(|other| other.split(':').next() != Some(&name));
            dns.options.push(match &option.value {
                Some(value) => format!("{name}:{value}"),
                None => name,
            });
        }
    }
    deduplicate(&mut dns.servers, MOST_SERVERS);
    deduplicate(&mut dns.searches, MOST_SEARCHES);
    dns
}

fn cluster_dns(namespace: &str, config: &Config, host: &ResolvConf) -> cri::DnsConfig {
    let domain = &config.cluster_domain;
    let mut searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
    searches.extend(host.searches.iter().cloned());
    cri::DnsConfig {
        servers: config.cluster_dns.iter().map(ToString::to_string).collect(),
        searches,
        options: vec!["ndots:5".to_owned()],
    }
}

fn deduplicate(list: &mut Vec<String>, most: usize) {
    let mut seen = std::collections::BTreeSet::new();
    list.retain(|item| seen.insert(item.clone()));
    list.truncate(most);
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn policies() {
        let host =
            ResolvConf::parse("# a comment\nnameserver 192.0.2.53\nsearch example.org\noptions edns0\n");
        let mut config = Config::new("node", Path::new("/d"), "192.0.2.1".parse().unwrap());
        config.cluster_dns = vec!["10.96.0.10".parse().unwrap()];
        let check = |spec: Value, want: &str| {
            let mut spec = spec;
            spec["containers"] = json!([]);
            let pod = json!({"metadata": {"namespace": "ns"}, "spec": spec});
            let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
            let dns = dns_config(&desired_pod, &config, &host);
            let got = [dns.servers.join(" "), dns.searches.join(" "), dns.options.join(" ")].join("; ");
            assert_eq!(got, want);
        };
        let cluster = "10.96.0.10; ns.svc.cluster.local svc.cluster.local cluster.local example.org; ndots:5";
        check(json!({}), cluster);
        check(json!({"hostNetwork": true}), "192.0.2.53; example.org; edns0");
        check(json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}), cluster);
        check(json!({"dnsPolicy": "Default"}), "192.0.2.53; example.org; edns0");
        let own = json!({"nameservers": ["1.1.1.1", "1.1.1.1"], "searches": ["a"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "rotate"}]});
        check(json!({"dnsPolicy": "None", "dnsConfig": own}), "1.1.1.1; a; ndots:2 rotate");
        check(
            json!({"dnsConfig": own}),
            "10.96.0.10 1.1.1.1; ns.svc.cluster.local svc.cluster.local cluster.local example.org a; ndots:2 rotate",
        );
    }
}
