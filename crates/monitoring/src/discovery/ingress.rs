//! Role `ingress`: every host and path, for probes from outside.

use serde_json::Value;

use super::target::{Labels, Target, list, text};

pub fn targets(ingress: &Value) -> Vec<Target<'_>> {
    let mut common = Labels::default();
    common.add_namespace(ingress);
    common.add_metadata("ingress", ingress);
    common.add_some("ingress_class_name", &ingress["spec"]["ingressClassName"]);
    let mut targets = Vec::new();
    for rule in list(&ingress["spec"]["rules"]) {
        let host = rule["host"].as_str().unwrap_or("*");
        let scheme = if has_certificate(ingress, host) { "https" } else { "http" };
        let mut paths: Vec<&str> =
            list(&rule["http"]["paths"]).map(|path| path["path"].as_str().unwrap_or("/")).collect();
        if paths.is_empty() {
            paths.push("/");
        }
        for path in paths {
            let mut labels = common.clone();
            labels.add("ingress_scheme", scheme);
            labels.add("ingress_host", host);
            labels.add("ingress_path", path);
            targets.push(Target { address: [host.to_owned()], labels });
        }
    }
    targets
}

/// A certificate is for hosts by their names; `*.example.com` is for one label more.
fn has_certificate(ingress: &Value, host: &str) -> bool {
    let hosts = list(&ingress["spec"]["tls"]).flat_map(|tls| list(&tls["hosts"])).map(text);
    let parent = host.split_once('.').map_or("", |(_, parent)| parent);
    hosts.into_iter().any(|known| {
        known == host || known.strip_prefix("*.").is_some_and(|known| !known.is_empty() && known == parent)
    })
}
