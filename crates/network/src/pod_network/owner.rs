//! Tells this agent's links from those of other agents and programs on the machine.

/// An agent, by its tunnel device and by the metric of its routes. The metric orders nothing: no two agents
/// have routes to the same pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub tunnel: String,
    pub metric: u32,
}

impl Owner {
    /// Interface names have room for 15 characters: an instance is 8 hexadecimal digits.
    pub fn of(instance: &str) -> Owner {
        let metric = u32::from_str_radix(instance, 16).unwrap_or(1).max(1);
        Owner { tunnel: format!("mkx-{instance}"), metric }
    }
}
