//! How a volume shall be used, and how large it shall be.

#[derive(Clone, PartialEq, prost::Message)]
pub struct VolumeCapability {
    #[prost(oneof = "AccessType", tags = "1, 2")]
    pub access_type: Option<AccessType>,
    #[prost(message, optional, tag = "3")]
    pub access_mode: Option<AccessMode>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum AccessType {
    #[prost(message, tag = "1")]
    Block(Block),
    #[prost(message, tag = "2")]
    Mount(Mount),
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Block {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Mount {
    #[prost(string, tag = "1")]
    pub fs_type: String,
    #[prost(string, repeated, tag = "2")]
    pub mount_flags: Vec<String>,
    #[prost(string, tag = "3")]
    pub volume_mount_group: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct AccessMode {
    #[prost(enumeration = "Mode", tag = "1")]
    pub mode: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Mode {
    Unknown = 0,
    SingleNodeWriter = 1,
    SingleNodeReaderOnly = 2,
    MultiNodeReaderOnly = 3,
    MultiNodeSingleWriter = 4,
    MultiNodeMultiWriter = 5,
    SingleNodeSingleWriter = 6,
    SingleNodeMultiWriter = 7,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct CapacityRange {
    #[prost(int64, tag = "1")]
    pub required_bytes: i64,
    #[prost(int64, tag = "2")]
    pub limit_bytes: i64,
}

impl CapacityRange {
    pub fn at_least(required_bytes: i64) -> Self {
        CapacityRange { required_bytes, limit_bytes: 0 }
    }
}

impl Mode {
    /// The one that Kubernetes' access modes of a volume mean, as its own components read them. `exact`: the driver
    /// tells one writer on a node from many.
    pub fn of(modes: &[String], exact: bool) -> Mode {
        let has = |mode: &str| modes.iter().any(|one| one == mode);
        if has("ReadWriteMany") {
            return Mode::MultiNodeMultiWriter;
        }
        match (has("ReadOnlyMany"), has("ReadWriteOnce"), has("ReadWriteOncePod")) {
            (true, true, _) => Mode::MultiNodeSingleWriter,
            (true, false, _) => Mode::MultiNodeReaderOnly,
            (false, _, true) if exact => Mode::SingleNodeSingleWriter,
            (false, true, false) if exact => Mode::SingleNodeMultiWriter,
            (false, ..) => Mode::SingleNodeWriter,
        }
    }
}

impl VolumeCapability {
    pub fn new(is_block: bool, mount: Mount, mode: Mode) -> Self {
        let access_type = if is_block { AccessType::Block(Block {}) } else { AccessType::Mount(mount) };
        VolumeCapability {
            access_type: Some(access_type),
            access_mode: Some(AccessMode { mode: mode as i32 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_modes_of_a_volume_become_one() {
        let check = |modes: &[&str], exact: bool, expected: Mode| {
            let modes: Vec<String> = modes.iter().map(|mode| (*mode).to_owned()).collect();
            assert_eq!(Mode::of(&modes, exact), expected, "{modes:?}");
        };
        check(&["ReadWriteOnce"], false, Mode::SingleNodeWriter);
        check(&["ReadWriteOnce"], true, Mode::SingleNodeMultiWriter);
        check(&["ReadWriteOncePod"], true, Mode::SingleNodeSingleWriter);
        check(&["ReadWriteOncePod"], false, Mode::SingleNodeWriter);
        check(&["ReadWriteOnce", "ReadWriteMany"], false, Mode::MultiNodeMultiWriter);
        check(&["ReadOnlyMany"], false, Mode::MultiNodeReaderOnly);
        check(&["ReadWriteOnce", "ReadOnlyMany"], false, Mode::MultiNodeSingleWriter);
    }
}
