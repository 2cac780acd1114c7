//! The words by which server, agents and the command speak of the class `shared`: volumes that every node reaches, on a
//! distributed file system that agents run.

use serde::{Deserialize, Serialize};

/// Provisioner of the class, and the CSI driver that agents are.
pub const DRIVER: &str = "shared.minik8s.io";
/// The class for claims and for snapshots.
pub const CLASS: &str = "shared";
/// The Secret that says how it is set up, in `kube-system`; none while it is not.
pub const SECRET: &str = "minik8s-shared-storage";
/// Its only key.
pub const CONFIG_KEY: &str = "config.json";
/// Where an agent is told and asked, below the node's own address.
pub const NODE_PATH: &str = "storage/shared";

/// How shared storage is set up. Kept in a Secret, handed to every agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedStorage {
    /// Data of another set-up is never touched: each has directories of this name.
    pub id: String,
    /// The node whose server knows all names and where their data is.
    pub master: SharedServer,
    /// The nodes that hold data, the master's among them or not.
    pub servers: Vec<SharedServer>,
    /// How many of them hold each piece of data.
    pub copies: u32,
    /// What clients must know.
    pub password: String,
    /// What servers must know.
    pub auth_code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedServer {
    pub node: String,
    pub address: String,
}

/// What an agent says of its part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedNodeStatus {
    /// Of the set-up that it knows; none if it knows none.
    pub id: Option<String>,
    pub daemons: Vec<DaemonStatus>,
    /// What keeps it from its part.
    pub problem: Option<String>,
    /// Where its data is.
    pub directory: Option<String>,
    /// Lines about the whole, from the master's node.
    pub cluster: Option<ClusterStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonStatus {
    pub name: String,
    pub pid: Option<i32>,
    pub resident_kib: Option<u64>,
}

/// What the master says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Addresses of the data servers that it reaches.
    pub servers: Vec<String>,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Pieces of data with fewer copies than wanted, and with none.
    pub under_goal: u64,
    pub missing: u64,
}
