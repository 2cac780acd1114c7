//! What a call must say before anything is done. Pure.

use minik8s_csi::VolumeCapability;
use minik8s_csi::controller::{CreateSnapshot, CreateVolume, ExpandVolume, PublishVolume};
use minik8s_csi::node;

use crate::SharedError;

type Checked = Result<(), SharedError>;

/// A field that is not empty.
pub fn need(name: &str, value: &str) -> Checked {
    if value.is_empty() { Err(SharedError::Call(format!("{name} is missing"))) } else { Ok(()) }
}

fn need_capability(capability: Option<&VolumeCapability>) -> Checked {
    match capability {
        Some(capability) if capability.access_type.is_some() => Ok(()),
        _ => need("volume_capability", ""),
    }
}

pub fn create(call: &CreateVolume) -> Checked {
    need("name", &call.name)?;
    need_capability(call.volume_capabilities.first())
}

pub fn publish(call: &PublishVolume) -> Checked {
    need("volume_id", &call.volume_id)?;
    need("node_id", &call.node_id)?;
    need_capability(call.volume_capability.as_ref())
}

pub fn expand(call: &ExpandVolume) -> Checked {
    need("volume_id", &call.volume_id)?;
    match call.capacity_range {
        Some(range) if range.required_bytes > 0 => Ok(()),
        _ => need("capacity_range", ""),
    }
}

pub fn snapshot(call: &CreateSnapshot) -> Checked {
    need("name", &call.name)?;
    need("source_volume_id", &call.source_volume_id)
}

pub fn stage(call: &node::StageVolume) -> Checked {
    need("volume_id", &call.volume_id)?;
    need("staging_target_path", &call.staging_target_path)?;
    need_capability(call.volume_capability.as_ref())
}

pub fn node_publish(call: &node::PublishVolume) -> Checked {
    need("volume_id", &call.volume_id)?;
    need("target_path", &call.target_path)?;
    need("staging_target_path", &call.staging_target_path)?;
    need_capability(call.volume_capability.as_ref())
}

/// Both parts of a call that takes something from a node, or asks about it.
pub fn volume_at(volume_id: &str, path: &str) -> Checked {
    need("volume_id", volume_id)?;
    need("path", path)
}

#[cfg(test)]
mod tests {
    use minik8s_csi::{CapacityRange, Mode, Mount};

    use super::*;

    #[test]
    fn call_that_says_too_little_is_refused() {
        let capability = || VolumeCapability::new(false, Mount::default(), Mode::MultiNodeMultiWriter);
        let whole = CreateVolume {
            name: "v".to_owned(),
            volume_capabilities: vec![capability()],
            ..CreateVolume::default()
        };
        assert!(create(&whole).is_ok());
        assert!(create(&CreateVolume { name: String::new(), ..whole.clone() }).is_err());
        assert!(create(&CreateVolume { volume_capabilities: Vec::new(), ..whole }).is_err());
        let larger = ExpandVolume {
            volume_id: "v".to_owned(),
            capacity_range: Some(CapacityRange::at_least(1)),
            ..ExpandVolume::default()
        };
        assert!(expand(&larger).is_ok());
        assert!(expand(&ExpandVolume { capacity_range: None, ..larger }).is_err());
        let error = volume_at("v", "").unwrap_err().to_string();
        assert!(error.contains("path is missing"), "{error}");
    }
}
