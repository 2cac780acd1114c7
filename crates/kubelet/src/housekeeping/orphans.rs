//! Containers that interrupted starts left, while the agent runs. After its end, `teardown` finds them.

use jiff::Timestamp;
use tracing::warn;

use crate::Config;
use crate::containerd::Orphans;
use crate::cri::Runtime;

/// `None` where the runtime is not ours alone.
pub fn orphans_of(config: &Config) -> Option<Orphans> {
    config.cri_endpoint.is_none().then(|| Orphans::new(config))
}

pub async fn remove_orphans(runtime: &dyn Runtime, orphans: &mut Option<Orphans>) {
    let Some(orphans) = orphans else { return };
    if let Err(error) = orphans.sweep(runtime.ids(), Timestamp::now()).await {
        warn!(%error, "cannot look for what interrupted starts left");
    }
}
