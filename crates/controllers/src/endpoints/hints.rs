//! Whom an endpoint is for, as a Service's `trafficDistribution` says: its own zone, or its own node and else its zone.
//! Pure. The nodes follow hints as long as all ready endpoints have them.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{EndpointHints, ForNode, ForZone};

use super::backend::Backend;

pub fn hints(service: &Service, backend: &Backend) -> Option<EndpointHints> {
    let distribution = service.spec.as_ref()?.traffic_distribution.as_deref()?;
    let is_by_node = match distribution {
        "PreferClose" | "PreferSameZone" => false,
        "PreferSameNode" => true,
        _ => return None,
    };
    if !backend.is_ready {
        return None;
    }
    let zone = backend.zone.clone().map(|name| vec![ForZone { name }]);
    let node = backend.node.clone().filter(|_| is_by_node).map(|name| vec![ForNode { name }]);
    (zone.is_some() || node.is_some()).then_some(EndpointHints { for_nodes: node, for_zones: zone })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn hints_follow_the_distribution() {
        let check = |distribution: Value, zone: Option<&str>, is_ready: bool, expected: Value| {
            let service = json!({"spec": {"trafficDistribution": distribution}});
            let service: Service = serde_json::from_value(service).unwrap();
            let backend = Backend {
                addresses: vec!["10.0.0.1".to_owned()],
                is_ready,
                is_serving: is_ready,
                is_terminating: false,
                hostname: None,
                node: Some("a".to_owned()),
                zone: zone.map(str::to_owned),
                pod: ObjectReference::default(),
                ports: Vec::new(),
            };
            assert_eq!(json!(hints(&service, &backend)), expected, "{distribution} {zone:?}");
        };
        let zone = json!({"forZones": [{"name": "x"}]});
        check(Value::Null, Some("x"), true, Value::Null);
        check(json!("PreferClose"), Some("x"), true, zone.clone());
        check(json!("PreferSameZone"), Some("x"), true, zone);
        check(json!("PreferSameZone"), None, true, Value::Null);
        check(json!("PreferSameZone"), Some("x"), false, Value::Null);
        let node = json!([{"name": "a"}]);
        check(
            json!("PreferSameNode"),
            Some("x"),
            true,
            json!({"forNodes": node, "forZones": [{"name": "x"}]}),
        );
        check(json!("PreferSameNode"), None, true, json!({"forNodes": node}));
    }
}
