//! The cluster's Services, as far as containers are told of them in their environment.

mod env;
mod watch;

pub use env::service_env;
pub use watch::Services;
