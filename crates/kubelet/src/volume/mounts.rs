//! The mounts of one container: its volumes, its hosts file, its termination message.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use k8s_cri::v1 as cri;
use k8s_openapi::api::core::v1 as core;
use thiserror::Error;

use super::PodVolumes;
use super::sub_path::{self, SubPathError};
use crate::container::{Room, TooLarge};
use crate::pod::ContainerSpec;

const TERMINATION_MESSAGE: &str = "/dev/termination-log";

#[derive(Debug, Error)]
pub enum MountError {
    #[error("volume {0:?} not found")]
    NoVolume(String),
    #[error("volume {0:?} requested recursive read-only mode, but it is not supported by the runtime")]
    RecursiveReadOnly(String),
    #[error(transparent)]
    SubPath(#[from] SubPathError),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("cannot prepare {path:?}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// What a container is given besides its image.
pub struct ContainerFiles<'a> {
    pub volumes: &'a PodVolumes<'a>,
    pub container: &'a ContainerSpec,
    pub attempt: u32,
    pub env: &'a [(String, String)],
    /// Content of `/etc/hosts`.
    pub hosts: String,
}

impl ContainerFiles<'_> {
    /// The mounts, and the file that becomes the termination message.
    pub fn prepare(&self) -> Result<(Vec<cri::Mount>, PathBuf), MountError> {
        let wanted = self.container.spec.volume_mounts.as_deref().unwrap_or_default();
        let mut mounts = Vec::new();
        for (index, mount) in wanted.iter().enumerate() {
            mounts.push(self.volume_mount(index, mount)?);
        }
        let taken = |path: &str| wanted.iter().any(|m| m.mount_path.trim_end_matches('/') == path);
        if !taken("/etc/hosts") {
            let file = self.volumes.dir().join("etc-hosts");
            write(&file, self.hosts.as_bytes(), 0o644)?;
            mounts.push(bind(&file, "/etc/hosts"));
        }
        let message = self.termination_message()?;
        let path = self.container.spec.termination_message_path.as_deref().unwrap_or(TERMINATION_MESSAGE);
        if !path.is_empty() && !taken(path) {
            mounts.push(bind(&message, path));
        }
        Ok((mounts, message))
    }

    /// Volumes that the container has as raw block devices.
    pub fn devices(&self) -> Result<Vec<cri::Device>, MountError> {
        let wanted = self.container.spec.volume_devices.as_deref().unwrap_or_default();
        let device = |wanted: &core::VolumeDevice| {
            let volume =
                self.volumes.path(&wanted.name).ok_or_else(|| MountError::NoVolume(wanted.name.clone()))?;
            // The runtime wants the device itself, not a link to it.
            let host = fs::canonicalize(&volume).map_err(|source| MountError::Io { path: volume, source })?;
            let permissions = if self.volumes.is_read_only(&wanted.name) { "r" } else { "mrw" };
            Ok(cri::Device {
                container_path: wanted.device_path.clone(),
                host_path: host.to_string_lossy().into_owned(),
                permissions: permissions.to_owned(),
            })
        };
        wanted.iter().map(device).collect()
    }

    fn volume_mount(&self, index: usize, mount: &core::VolumeMount) -> Result<cri::Mount, MountError> {
        // A runtime is asked for read-only mounts, but not for what is mounted below them.
        if mount.recursive_read_only.as_deref() == Some("Enabled") {
            return Err(MountError::RecursiveReadOnly(mount.name.clone()));
        }
        let volume =
            self.volumes.path(&mount.name).ok_or_else(|| MountError::NoVolume(mount.name.clone()))?;
        let lookup = |name: &str| self.env.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let part = match (&mount.sub_path_expr, &mount.sub_path) {
            (Some(expression), _) if !expression.is_empty() => {
                Some(Room::default().expand(expression, lookup)?)
            }
            (_, Some(path)) if !path.is_empty() => Some(path.clone()),
            _ => None,
        };
        let host_path = match part {
            Some(part) => {
                let dir = self.volumes.dir().join("subpaths").join(&self.container.spec.name);
                sub_path::bind(&volume, &part, dir.join(format!("{}-{index}", self.attempt)))?
            }
            None => volume,
        };
        let propagation = match mount.mount_propagation.as_deref() {
            Some("HostToContainer") => cri::MountPropagation::PropagationHostToContainer,
            Some("Bidirectional") => cri::MountPropagation::PropagationBidirectional,
            _ => cri::MountPropagation::PropagationPrivate,
        };
        let absolute = if mount.mount_path.starts_with('/') { "" } else { "/" };
        Ok(cri::Mount {
            container_path: format!("{absolute}{}", mount.mount_path),
            host_path: host_path.to_string_lossy().into_owned(),
            readonly: mount.read_only.unwrap_or(false) || self.volumes.is_read_only(&mount.name),
            propagation: propagation as i32,
            ..Default::default()
        })
    }

    fn termination_message(&self) -> Result<PathBuf, MountError> {
        let dir = self.volumes.dir().join("containers").join(&self.container.spec.name);
        let file = dir.join(format!("{}.message", self.attempt));
        // Any user of the container may write it.
        write(&file, b"", 0o666)?;
        Ok(file)
    }
}

fn write(path: &PathBuf, content: &[u8], mode: u32) -> Result<(), MountError> {
    let all = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    };
    all().map_err(|source| MountError::Io { path: path.clone(), source })
}

fn bind(file: &Path, container_path: &str) -> cri::Mount {
    cri::Mount {
        container_path: container_path.to_owned(),
        host_path: file.to_string_lossy().into_owned(),
        ..Default::default()
    }
}
