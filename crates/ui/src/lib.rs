//! The dashboard: its files, built into the program, and the ways to log in.
//!
//! It is a page that talks to the plain Kubernetes API with its user's own rights. There is no service behind it: this
//! crate serves files (`assets`), exchanges one-time links for sessions (`session`), and puts a kubeconfig's credentials
//! before a browser on the same machine (`proxy`), web interfaces of pods at hosts of their own (`forward`). It never adds rights, and never looks into what is asked.

mod assets;
mod cookie;
mod feature;
mod forward;
mod history;
mod proxy;
mod same_origin;
mod server_door;
mod server_sessions;
mod session;

pub use assets::{PATH, is_built};
pub use feature::Dashboard;
pub use proxy::{Proxy, StartError};
pub use session::{Secret, Sessions};
