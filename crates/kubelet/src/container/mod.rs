//! From a container's spec to what the runtime is asked for. Pure.

mod app_armor;
mod config;
mod env;
mod expand;
mod field_ref;
mod resources;
mod security;

pub use app_armor::AppArmor;
pub use config::{Request, container_config};
pub use env::environment;
pub use expand::{Room, TooLarge};
pub use field_ref::{FieldError, Placement, field, resource};
pub use resources::{cpu_quota, cpu_shares, linux_resources};
pub use security::{container_security, sandbox_security, strict_groups};
