//! Kubernetes' Pod Security Standards: which pods a namespace's labels allow.
//!
//! Pure: a pod's JSON and a policy in, violations in upstream's words out. One file per control below
//! `checks`, each with the versions at which upstream changed it. Nothing here reads the store, knows a
//! request or decides what happens to it: that is admission's part, in the API server.

mod check;
mod checks;
mod decision;
mod evaluate;
mod level;
mod pod;
mod policy;
mod survey;
mod update;
mod version;
mod wording;

pub use checks::NEWEST;
pub use decision::{Decision, Subject};
pub use level::Level;
pub use pod::Pod;
pub use policy::{LabelError, LevelVersion, Policy};
pub use survey::Survey;
pub use update::is_significant;
pub use version::Version;
