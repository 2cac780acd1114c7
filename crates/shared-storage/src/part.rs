//! What one node does in a set-up. Pure.

use std::path::PathBuf;

use minik8s_meta::shared_storage::SharedStorage;

/// A set-up as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub setup: SharedStorage,
    pub node: String,
    /// All that this set-up has on the node.
    pub dir: PathBuf,
}

impl Part {
    pub fn is_master(&self) -> bool {
        self.setup.master.node == self.node
    }

    /// The address under which this node serves data.
    pub fn serves(&self) -> Option<&str> {
        let own = self.setup.servers.iter().find(|server| server.node == self.node);
        own.map(|server| server.address.as_str())
    }

    /// Every server but the master's keeps what the master would need on another machine.
    pub fn logs_metadata(&self) -> bool {
        !self.is_master() && self.serves().is_some()
    }

    /// Addresses of all servers, each once.
    pub fn addresses(&self) -> Vec<String> {
        let servers = self.setup.servers.iter().chain([&self.setup.master]);
        let mut all: Vec<String> = servers.map(|server| server.address.clone()).collect();
        all.sort();
        all.dedup();
        all
    }
}

#[cfg(test)]
pub mod tests {
    use minik8s_meta::shared_storage::SharedServer;

    use super::*;

    pub fn part(node: &str, dir: &str) -> Part {
        let server = |node: &str, address: &str| SharedServer { node: node.into(), address: address.into() };
        Part {
            setup: SharedStorage {
                id: "x1".into(),
                master: server("a", "10.0.0.1"),
                servers: vec![server("a", "10.0.0.1"), server("b", "10.0.0.2")],
                copies: 2,
                password: "p4ss".into(),
                auth_code: "c0de".into(),
            },
            node: node.into(),
            dir: dir.into(),
        }
    }

    #[test]
    fn nodes_have_their_parts() {
        let check = |node: &str, master: bool, serves: Option<&str>, logs: bool| {
            let part = part(node, "/d");
            assert_eq!(
                (part.is_master(), part.serves(), part.logs_metadata()),
                (master, serves, logs),
                "{node}"
            );
        };
        check("a", true, Some("10.0.0.1"), false);
        check("b", false, Some("10.0.0.2"), true);
        check("c", false, None, false);
        assert_eq!(part("c", "/d").addresses(), ["10.0.0.1", "10.0.0.2"]);
    }
}
