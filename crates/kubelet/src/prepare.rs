//! Brings the container runtime of this node up: containerd, the pod network's configuration, the pause image.

use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;
use tracing::info;

use crate::containerd::{Containerd, ContainerdError, Host, Settings};
use crate::cri::{Cri, Runtime};
use crate::image::{ImageStore, PAUSE_IMAGE, StoreError, pause_archive};
use crate::{Config, ConfigError, cni};

const IMAGE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Error)]
pub enum PrepareError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Containerd(#[from] ContainerdError),
    #[error("cannot prepare {path}")]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot load the pause image")]
    PauseImage(#[from] StoreError),
    #[error("the container runtime does not see the pause image")]
    PauseImageUnseen,
}

/// Returns the containerd to supervise; `None` if the configuration names a CRI socket of somebody else.
pub async fn prepare(config: &Config) -> Result<Option<Containerd>, PrepareError> {
    config.validate()?;
    for dir in [config.containerd_dir(), config.pods_dir(), config.logs_dir(), config.cni_dir()] {
        prepare_directory(&dir)?;
    }
    if config.cri_endpoint.is_some() {
        return Ok(None);
    }
    if let Some(cidr) = config.pod_cidr {
        cni::write(config, cidr)
            .map_err(|source| PrepareError::Directory { path: config.cni_dir(), source })?;
    }
    let host = Host::detect(&config.data_dir);
    let containerd = Containerd::start(Settings::new(config, host)).await?;
    load_pause_image(config).await?;
    Ok(Some(containerd))
}

/// Containers reach what is theirs by bind mounts, which need no way through this directory. Whoever removes a pod's files
/// compares paths with the mount table, which knows no links.
fn prepare_directory(dir: &Path) -> Result<(), PrepareError> {
    let failed = |source| PrepareError::Directory { path: dir.to_owned(), source };
    minik8s_datadir::close(dir).map_err(failed)?;
    match std::fs::canonicalize(dir).map_err(failed)? == dir {
        true => Ok(()),
        false => Err(ConfigError::DataDirLink(dir.to_owned()).into()),
    }
}

async fn load_pause_image(config: &Config) -> Result<(), PrepareError> {
    let store = ImageStore::new(&config.containerd_socket());
    if store.exists(PAUSE_IMAGE).await? {
        return Ok(());
    }
    let archive = pause_archive()
        .map_err(|source| PrepareError::Directory { path: PathBuf::from(PAUSE_IMAGE), source })?;
    store.load(Cursor::new(archive), |_| {}).await?;
    info!(image = PAUSE_IMAGE, "loaded the pause image");
    // The CRI plugin learns of new images through events.
    let cri = Cri::new(&config.cri_socket());
    let deadline = Instant::now() + IMAGE_TIMEOUT;
    while !matches!(cri.image(PAUSE_IMAGE).await, Ok(Some(_))) {
        if Instant::now() > deadline {
            return Err(PrepareError::PauseImageUnseen);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_behind_a_link_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(base.path()).unwrap();
        prepare_directory(&base.join("data/pods")).unwrap();
        std::os::unix::fs::symlink(base.join("data"), base.join("link")).unwrap();
        std::os::unix::fs::symlink(base.join("data/pods"), base.join("data/logs")).unwrap();
        for linked in ["link/pods", "data/logs"] {
            let error = prepare_directory(&base.join(linked)).unwrap_err().to_string();
            assert!(error.contains("no link leads"), "{error}");
        }
    }
}
