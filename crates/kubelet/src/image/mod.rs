//! Images without a registry: reading docker and OCI archives, making archives, and containerd's store.

mod archive;
mod manifest;
mod name;
mod pause;
mod recipe;
mod samples;
mod store;
mod view;

pub use archive::{Archive, ArchiveError};
pub use name::normalize;
pub use pause::{PAUSE_IMAGE, pause_archive};
pub use recipe::Recipe;
pub use samples::{BUSYBOX, WEB, busybox, load, web};
pub use store::{ImageStore, Progress, StoreError, StoredImage, in_namespace};
pub use view::{ImageViews, ViewMount};

/// containerd's namespace for everything that CRI sees.
pub const NAMESPACE: &str = "k8s.io";
