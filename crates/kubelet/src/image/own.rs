//! Images of features of ours, which no registry has: a node makes one of its own files when the first pod asks for it. A file
//! and a line each; whoever gets images for pods knows none by name.

use std::path::Path;

use futures::future::BoxFuture;

use super::packaged::PackagedImages;
use super::runtimes::{Builders, Runtimes};
use super::sidecar::Sidecars;
use super::slurm_submit::SlurmSubmit;

/// Also after a newer program has taken its place on disk.
pub(super) const OURSELVES: &str = "/proc/self/exe";

static ALL: [&dyn OwnImage; 5] = [&SlurmSubmit, &Sidecars, &Runtimes, &Builders, &PackagedImages];

/// What makes images of some names.
pub trait OwnImage: Sync {
    fn serves(&self, name: &str) -> bool;

    /// Makes the image and gives it to the node's containerd.
    fn make<'a>(&'a self, name: &'a str, place: ImagePlace<'a>) -> BoxFuture<'a, Result<(), String>>;
}

/// Where images of a node are.
#[derive(Clone, Copy)]
pub struct ImagePlace<'a> {
    pub containerd_socket: &'a Path,
    pub data_dir: &'a Path,
}

/// What makes an image of this name, if it is one of ours.
pub fn own_image(name: &str) -> Option<&'static dyn OwnImage> {
    ALL.into_iter().find(|own| own.serves(name))
}

/// `minik8s image WORDS`: a process of its own makes the image, so that its memory, a hundred megabytes for a while, is not the
/// agent's.
pub(super) async fn make_apart(words: &[&str], data_dir: &Path) -> Result<(), String> {
    let mut command = tokio::process::Command::new(OURSELVES);
    command.arg("image").args(words).arg("--data-dir").arg(data_dir).kill_on_drop(true);
    let output = command.output().await.map_err(|error| format!("cannot start {OURSELVES}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(said.trim().trim_start_matches("minik8s: ").to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use minik8s_meta::function::RUNTIMES;
    use minik8s_meta::mesh::SIDECAR_IMAGE;
    use minik8s_meta::packaged_image::PACKAGED_IMAGES;

    use super::super::SLURM_SUBMIT;
    use super::*;

    #[test]
    fn each_own_image_is_made_by_one_and_others_by_none() {
        let runtimes = RUNTIMES.iter().flat_map(|runtime| [runtime.image, runtime.builder]);
        let packaged = PACKAGED_IMAGES.iter().map(|packaged| packaged.image);
        for name in runtimes.chain(packaged).chain([SLURM_SUBMIT, SIDECAR_IMAGE]) {
            assert_eq!(ALL.iter().filter(|own| own.serves(name)).count(), 1, "{name}");
        }
        for name in ["busybox:1", "minik8s.io/busybox:1", "", "minik8s.io/slurm-submit:0"] {
            assert!(own_image(name).is_none(), "{name}");
        }
    }
}
