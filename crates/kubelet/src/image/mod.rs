//! Images without a registry: reading docker and OCI archives, making archives, and containerd's store.

mod archive;
mod build;
mod bytecode;
mod manifest;
mod name;
mod own;
mod packaged;
mod packages;
mod pause;
mod recipe;
mod runtimes;
mod samples;
mod sidecar;
mod slurm_submit;
mod store;
mod view;

pub use archive::{Archive, ArchiveError};
pub use build::Overlay;
pub use name::normalize;
pub use own::{ImagePlace, OwnImage, own_image};
pub use packaged::recipe as packaged_recipe;
pub use packages::Packages;
pub use pause::{PAUSE_IMAGE, pause_archive};
pub use recipe::Recipe;
pub use runtimes::{make as make_runtime, program as runtime_program, recipe as runtime_recipe, runtime_of};
pub use samples::{BUSYBOX, WEB, busybox, load, web};
pub use sidecar::{PROGRAM as SIDECAR_PROGRAM, program as sidecar_program};
pub use slurm_submit::{SLURM_SUBMIT, recipe as slurm_submit};
pub use store::{ImageStore, Progress, StoreError, StoredImage, in_namespace};
pub use view::{ImageViews, ViewMount};

/// containerd's namespace for everything that CRI sees.
pub const NAMESPACE: &str = "k8s.io";
