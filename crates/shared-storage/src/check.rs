//! What a call must say before anything is done. Pure.

use minik8s_csi::controller::{
    CreateSnapshot, CreateVolume, ExpandVolume, PublishVolume, ValidateCapabilities,
};
use minik8s_csi::node;
use minik8s_csi::{CapacityRange, VolumeCapability};

use crate::SharedError;
use crate::controller::size;

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

/// At least one, and each says what it is.
fn need_capabilities(capabilities: &[VolumeCapability]) -> Checked {
    need_capability(capabilities.first())?;
    capabilities.iter().try_for_each(|capability| need_capability(Some(capability)))
}

/// Sizes that there can be.
fn check_range(range: Option<CapacityRange>) -> Checked {
    let CapacityRange { required_bytes, limit_bytes } = range.unwrap_or_default();
    let is_possible = required_bytes >= 0
        && (limit_bytes == 0 || (limit_bytes > 0 && size(required_bytes) <= limit_bytes.unsigned_abs()));
    match is_possible {
        true => Ok(()),
        false => Err(SharedError::Call(format!(
            "capacity_range: no volume has {required_bytes} bytes or more, and {limit_bytes} at most"
        ))),
    }
}

pub fn create(call: &CreateVolume) -> Checked {
    need("name", &call.name)?;
    check_range(call.capacity_range)?;
    need_capabilities(&call.volume_capabilities)
}

pub fn validate(call: &ValidateCapabilities) -> Checked {
    need("volume_id", &call.volume_id)?;
    need_capabilities(&call.volume_capabilities)
}

pub fn publish(call: &PublishVolume) -> Checked {
    need("volume_id", &call.volume_id)?;
    need("node_id", &call.node_id)?;
    need_capability(call.volume_capability.as_ref())
}

pub fn expand(call: &ExpandVolume) -> Checked {
    need("volume_id", &call.volume_id)?;
    check_range(call.capacity_range)?;
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
    use minik8s_csi::{Mode, Mount};

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
        let silent = VolumeCapability { access_type: None, ..capability() };
        assert!(create(&CreateVolume { volume_capabilities: Vec::new(), ..whole.clone() }).is_err());
        assert!(
            create(&CreateVolume { volume_capabilities: vec![capability(), silent], ..whole.clone() })
                .is_err()
        );
        let of_size = |required_bytes: i64, limit_bytes: i64| {
            let capacity_range = Some(CapacityRange { required_bytes, limit_bytes });
            create(&CreateVolume { capacity_range, ..whole.clone() }).is_ok()
        };
        assert!(of_size(0, 0) && of_size(2 << 20, 0) && of_size(2 << 20, 2 << 20) && of_size(0, 1 << 20));
        assert!(!of_size(-1, 0) && !of_size(0, -1) && !of_size(2 << 20, 1 << 20) && !of_size(0, 1));
        let validated =
            ValidateCapabilities { volume_id: "v".to_owned(), volume_capabilities: vec![capability()] };
        assert!(validate(&validated).is_ok());
        assert!(validate(&ValidateCapabilities { volume_capabilities: Vec::new(), ..validated }).is_err());
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
