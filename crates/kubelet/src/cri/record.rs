//! What the runtime knows of a pod, in our own terms.

use std::time::Duration;

use jiff::Timestamp;

/// All sandboxes and containers of one pod, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodRecord {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub sandboxes: Vec<SandboxRecord>,
    pub containers: Vec<ContainerRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRecord {
    pub id: String,
    pub attempt: u32,
    pub ready: bool,
    pub created: Timestamp,
    /// Empty with host networking.
    pub ips: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRecord {
    pub id: String,
    pub sandbox_id: String,
    pub name: String,
    /// How often this container was started before.
    pub attempt: u32,
    pub state: ContainerState,
    pub image: String,
    pub image_id: String,
    pub hash: String,
    pub restart_delay: Duration,
    /// Requests and limits it was made with, as the agent wrote them down.
    pub resources: String,
    pub log_path: String,
    /// File on the node that holds what the container left as its last words.
    pub termination_message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    Created,
    Running {
        started: Timestamp,
    },
    Exited {
        /// `None` if it never ran.
        started: Option<Timestamp>,
        finished: Timestamp,
        code: i32,
        reason: String,
        message: String,
    },
    Unknown,
}

impl PodRecord {
    /// The sandbox that containers may be started in.
    pub fn sandbox(&self) -> Option<&SandboxRecord> {
        self.sandboxes.first().filter(|sandbox| sandbox.ready)
    }

    /// The newest incarnation of a container.
    pub fn container(&self, name: &str) -> Option<&ContainerRecord> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// The incarnation before the newest one.
    pub fn previous(&self, name: &str) -> Option<&ContainerRecord> {
        self.containers.iter().filter(|c| c.name == name).nth(1)
    }

    /// Puts the newest first.
    pub fn sort(&mut self) {
        self.sandboxes.sort_by_key(|s| std::cmp::Reverse((s.attempt, s.created)));
        self.containers.sort_by_key(|c| std::cmp::Reverse(c.attempt));
    }

    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    pub fn anything_running(&self) -> bool {
        self.containers.iter().any(ContainerRecord::is_running)
    }
}

impl ContainerRecord {
    pub fn is_running(&self) -> bool {
        matches!(self.state, ContainerState::Running { .. } | ContainerState::Unknown)
    }

    pub fn exit_code(&self) -> Option<i32> {
        match self.state {
            ContainerState::Exited { code, .. } => Some(code),
            _ => None,
        }
    }
}
