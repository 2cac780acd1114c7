//! Volumes of files that the agent writes and keeps up to date: configMap on disk; secret, downwardAPI and projected in
//! memory.
//!
//! Containers only read them: one that could change them could lead the agent elsewhere.

use k8s_openapi::api::core::v1 as core;

use super::payload::{Payload, PayloadError, Sources};
use super::{PodVolumePlugin, PodVolumes, SetUpError, atomic, memory};

pub struct ConfigMap;
pub struct Secret;
pub struct DownwardApi;
pub struct Projected;

impl PodVolumePlugin for ConfigMap {
    fn serves(&self, volume: &core::Volume) -> bool {
        volume.config_map.is_some()
    }

    fn is_read_only(&self, _: &core::Volume) -> bool {
        true
    }

    fn set_up(
        &self,
        pod: &PodVolumes<'_>,
        volume: &core::Volume,
        sources: &Sources<'_>,
    ) -> Result<(), SetUpError> {
        let Some(source) = &volume.config_map else { return Err(SetUpError::Unsupported) };
        atomic::write(&pod.volume_dir(&volume.name), &sources.config_map(source)?, pod.group())?;
        Ok(())
    }
}

/// Those that lie in memory differ in where their files come from.
macro_rules! in_memory {
    ($kind:ident, $field:ident, $payload:expr) => {
        impl PodVolumePlugin for $kind {
            fn serves(&self, volume: &core::Volume) -> bool {
                volume.$field.is_some()
            }

            fn is_read_only(&self, _: &core::Volume) -> bool {
                true
            }

            fn set_up(
                &self,
                pod: &PodVolumes<'_>,
                volume: &core::Volume,
                sources: &Sources<'_>,
            ) -> Result<(), SetUpError> {
                let payload = volume.$field.as_ref().map(|source| $payload(sources, &volume.name, source));
                write_in_memory(pod, volume, payload)
            }
        }
    };
}

in_memory!(Secret, secret, |sources: &Sources<'_>, _, source| sources.secret(source));
in_memory!(DownwardApi, downward_api, |sources: &Sources<'_>, _, source| sources.downward(source));
in_memory!(Projected, projected, Sources::projected);

fn write_in_memory(
    pod: &PodVolumes<'_>,
    volume: &core::Volume,
    payload: Option<Result<Payload, PayloadError>>,
) -> Result<(), SetUpError> {
    let payload = payload.ok_or(SetUpError::Unsupported)??;
    let dir = pod.volume_dir(&volume.name);
    memory::prepare(&dir, &payload)?;
    atomic::write(&dir, &payload, pod.group())?;
    Ok(())
}
