//! Persistent storage on the server's side: which claim gets which volume, and what becomes of both.
//!
//! Controllers with pure plans. [`claim`] binds claims, makes volumes for them and lets them grow;
//! [`volume`] says in which phase a volume is and reclaims it; [`ephemeral`] makes the claims that pods bring with
//! them; [`attach`] attaches volumes of CSI drivers to nodes; [`snapshot`] gives snapshots their contents. [`csi`] calls the controller services of drivers that
//! nobody else calls.
//! Nothing here touches a disk: volumes of the class `local` are images that the agent of their node makes when a pod
//! first mounts them and removes when the volume is deleted.

mod admission;
mod annotation;
mod attach;
mod attributes;
mod claim;
mod claim_status;
mod csi;
mod default_class;
mod ephemeral;
mod explain;
mod feature;
mod fit;
mod index;
mod local;
mod nfs;
mod shared;
mod snapshot;
mod volume;

pub use explain::explain;
pub use feature::Storage;
