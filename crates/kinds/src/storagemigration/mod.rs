//! storagemigration.k8s.io: rewriting stored objects in a new version.

pub(super) mod storage_version_migration;
