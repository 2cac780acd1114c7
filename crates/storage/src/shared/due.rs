//! Which nodes are to be told of shared storage. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use minik8s_meta::shared_storage::{DRIVER, SharedStorage};

use crate::local::is_up;

/// What a node was told last: it knows it as long as it is the same machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    uid: Option<String>,
    setup: Option<SharedStorage>,
}

/// Names of nodes with what they are to be told. Those that are away are forgotten: they are told again when they are back.
pub fn due(
    setup: Option<&SharedStorage>,
    nodes: &[Arc<Node>],
    csi_nodes: &[Arc<CSINode>],
    told: &mut HashMap<String, Told>,
) -> Vec<(String, Told)> {
    let up: Vec<&Arc<Node>> = nodes.iter().filter(|node| is_up(node)).collect();
    let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
    told.retain(|known, _| up.iter().any(|node| name(node) == *known));
    let has_driver = |node: &str| {
        let own = csi_nodes.iter().filter(|one| one.metadata.name.as_deref() == Some(node));
        own.flat_map(|one| &one.spec.drivers).any(|driver| driver.name == DRIVER)
    };
    let news =
        up.iter().map(|node| (name(node), Told { uid: node.metadata.uid.clone(), setup: setup.cloned() }));
    // Where there is nothing to take back, nobody is asked.
    news.filter(|(node, news)| told.get(node) != Some(news) && (setup.is_some() || has_driver(node)))
        .collect()
}

#[cfg(test)]
mod tests {
    use minik8s_meta::shared_storage::SharedServer;
    use serde_json::json;

    use super::*;

    fn node(name: &str, uid: &str, ready: &str) -> Arc<Node> {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        Arc::new(
            serde_json::from_value(
                json!({"metadata": {"name": name, "uid": uid}, "status": {"conditions": conditions}}),
            )
            .unwrap(),
        )
    }

    fn setup(copies: u32) -> SharedStorage {
        let server = SharedServer { node: "a".into(), address: "10.0.0.1".into() };
        SharedStorage {
            id: "i".into(),
            master: server.clone(),
            servers: vec![server],
            copies,
            password: String::new(),
            auth_code: String::new(),
        }
    }

    #[test]
    fn nodes_are_told_once_and_again_when_they_come_back() {
        let mut told = HashMap::new();
        let mut check = |setup: Option<&SharedStorage>,
                         nodes: &[Arc<Node>],
                         drivers: &[&str],
                         expected: &[&str]| {
            let csi = |name: &&str| {
                let drivers = json!([{"name": DRIVER, "nodeID": name}]);
                Arc::new(
                    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"drivers": drivers}}))
                        .unwrap(),
                )
            };
            let csi_nodes: Vec<Arc<CSINode>> = drivers.iter().map(csi).collect();
            let found = due(setup, nodes, &csi_nodes, &mut told);
            let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, expected);
            told.extend(found.clone());
        };
        let both = [node("a", "1", "True"), node("b", "2", "True")];
        check(None, &both, &[], &[]);
        check(Some(&setup(1)), &both, &[], &["a", "b"]);
        check(Some(&setup(1)), &both, &["a", "b"], &[]);
        check(Some(&setup(2)), &both, &["a", "b"], &["a", "b"]);
        let away = [node("a", "1", "True"), node("b", "2", "False")];
        check(Some(&setup(2)), &away, &["a", "b"], &[]);
        check(Some(&setup(2)), &both, &["a", "b"], &["b"]);
        let another = [node("a", "9", "True"), node("b", "2", "True")];
        check(Some(&setup(2)), &another, &["a", "b"], &["a"]);
        check(None, &another, &["a"], &["a"]);
        check(None, &another, &[], &[]);
    }
}
