//! Services as environment variables: `WEB_SERVICE_HOST`, `WEB_PORT_80_TCP_ADDR` and the like. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;

/// Variables for these Services. Those without an address have none.
pub fn service_env(services: &[Arc<core::Service>]) -> Vec<(String, String)> {
    services.iter().flat_map(|service| variables(service)).collect()
}

fn variables(service: &core::Service) -> Vec<(String, String)> {
    let spec = service.spec.clone().unwrap_or_default();
    let address = spec.cluster_ip.filter(|ip| !ip.is_empty() && ip != "None");
    let (Some(ip), Some(ports)) = (address, spec.ports.filter(|ports| !ports.is_empty())) else {
        return Vec::new();
    };
    let prefix = shouted(service.metadata.name.as_deref().unwrap_or_default());
    let mut all = Vec::new();
    let mut set = |name: String, value: String| all.push((format!("{prefix}_{name}"), value));
    set("SERVICE_HOST".to_owned(), ip.clone());
    set("SERVICE_PORT".to_owned(), ports[0].port.to_string());
    for port in &ports {
        if let Some(name) = port.name.as_ref().filter(|name| !name.is_empty()) {
            set(format!("SERVICE_PORT_{}", shouted(name)), port.port.to_string());
        }
    }
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.clone() };
    for (index, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{host}:{}", protocol.to_lowercase(), port.port);
        if index == 0 {
            set("PORT".to_owned(), url.clone());
        }
        let one = format!("PORT_{}_{}", port.port, protocol.to_uppercase());
        set(one.clone(), url);
        set(format!("{one}_PROTO"), protocol.to_lowercase());
        set(format!("{one}_PORT"), port.port.to_string());
        set(format!("{one}_ADDR"), ip.clone());
    }
    all
}

fn shouted(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(spec: Value, want: &[&str]) {
        let service = json!({"metadata": {"name": "my-web"}, "spec": spec});
        let services = [Arc::new(serde_json::from_value(service).unwrap())];
        let got: Vec<_> = service_env(&services).into_iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn variables() {
        check(
            json!({"clusterIP": "10.0.0.1", "ports": [{"name": "web-ui", "port": 80}, {"port": 53, "protocol": "UDP"}]}),
            &[
                "MY_WEB_SERVICE_HOST=10.0.0.1",
                "MY_WEB_SERVICE_PORT=80",
                "MY_WEB_SERVICE_PORT_WEB_UI=80",
                "MY_WEB_PORT=tcp://10.0.0.1:80",
                "MY_WEB_PORT_80_TCP=tcp://10.0.0.1:80",
                "MY_WEB_PORT_80_TCP_PROTO=tcp",
                "MY_WEB_PORT_80_TCP_PORT=80",
                "MY_WEB_PORT_80_TCP_ADDR=10.0.0.1",
                "MY_WEB_PORT_53_UDP=udp://10.0.0.1:53",
                "MY_WEB_PORT_53_UDP_PROTO=udp",
                "MY_WEB_PORT_53_UDP_PORT=53",
                "MY_WEB_PORT_53_UDP_ADDR=10.0.0.1",
            ],
        );
        check(json!({"clusterIP": "None", "ports": [{"port": 80}]}), &[]);
        check(json!({"clusterIP": "10.0.0.1"}), &[]);
    }
}
