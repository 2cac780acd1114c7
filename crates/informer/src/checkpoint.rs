//! What an agent knew when it ended, in files of its data dir, so that the next run can go on from it while no server
//! answers.
//!
//! One file per kind, a list as the API writes it. A file is replaced as a whole, never changed in place. A broken one is
//! passed over: all it could do is help. What the API server says takes the place of it as soon as it says anything.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{AnyCache, Kind};

/// Until a change is written: it may be one of many a second.
const GATHER: Duration = Duration::from_secs(1);
/// Between two writes at least, and so many times as long as the last one took: writing is not what this machine is for.
const PAUSE: Duration = Duration::from_secs(2);
const SHARE: u32 = 50;

pub struct Checkpoint(PathBuf);

impl Checkpoint {
    /// Below the data dir.
    pub const FOLDER: &str = "checkpoints";

    pub fn of(data_dir: &Path, kind: &Kind) -> Checkpoint {
        Checkpoint(data_dir.join(Self::FOLDER).join(format!("{kind}.json")))
    }

    /// Fills the cache with what is there, and then writes whatever is new in it until `stop`.
    pub fn keep(&self, cache: Arc<dyn AnyCache>, stop: CancellationToken) {
        if let Ok(bytes) = std::fs::read(&self.0)
            && let Err(error) = cache.remember_json(&bytes)
        {
            tracing::warn!(%error, "cannot use {}", self.0.display());
        }
        let path = self.0.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = write_changes(path, cache) => {}
                () = stop.cancelled() => {}
            }
        });
    }
}

/// Only what a server has told: what is remembered is there already.
async fn write_changes(path: PathBuf, cache: Arc<dyn AnyCache>) {
    let changed = Arc::new(Notify::new());
    let notified = changed.clone();
    cache.listen_metadata(Box::new(move |_, _| notified.notify_one()));
    cache.wait_synced().await;
    loop {
        sleep(GATHER).await;
        let (started, cache, path) = (Instant::now(), cache.clone(), path.clone());
        let written = tokio::task::spawn_blocking(move || write(&path, &cache.to_checkpoint()?)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "cannot keep what this node knows for its next start");
        }
        sleep(PAUSE.max(started.elapsed() * SHARE)).await;
        changed.notified().await;
    }
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let new = path.with_extension("new");
    // What objects say is for those who may read them.
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    // Without this a power failure could leave an empty file under the old name.
    file.sync_data()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    use super::*;
    use crate::{Cache, Key};

    fn cache() -> Arc<Cache<Service>> {
        Arc::new(Cache::new(Kind::of::<Service>()))
    }

    fn service(name: &str, version: u64) -> Service {
        let meta = json!({"namespace": "ns", "name": name, "resourceVersion": version.to_string()});
        serde_json::from_value(json!({"metadata": meta})).unwrap()
    }

    fn keep(dir: &Path) -> Arc<Cache<Service>> {
        let cache = cache();
        Checkpoint::of(dir, cache.kind()).keep(cache.clone(), CancellationToken::new());
        cache
    }

    #[tokio::test]
    async fn checkpoint_fills_the_cache_of_the_next_run_until_a_server_answers() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(Checkpoint::FOLDER).join("services.json");
        let first = keep(dir.path());
        assert!(!first.is_checkpointed());
        first.replace(vec![service("a", 7)], 9);
        while !file.exists() {
            sleep(Duration::from_millis(5)).await;
        }
        let next = keep(dir.path());
        assert!(next.is_checkpointed() && !next.is_synced());
        assert_eq!((next.len(), next.revision()), (1, 9));
        // The server was restored from an older backup meanwhile.
        next.replace(vec![service("a", 5), service("b", 6)], 6);
        assert_eq!(next.get(&Key::new("ns", "a")).unwrap().metadata.resource_version.as_deref(), Some("5"));
        assert_eq!((next.len(), next.revision()), (2, 6));
    }

    #[tokio::test]
    async fn checkpoint_with_a_hostile_object_still_gives_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(Checkpoint::FOLDER).join("services.json");
        std::fs::create_dir(dir.path().join(Checkpoint::FOLDER)).unwrap();
        let items = json!([{"metadata": {"name": 5}}, {"metadata": {"name": "b"}}, 7]);
        std::fs::write(&file, json!({"metadata": {"resourceVersion": "3"}, "items": items}).to_string())
            .unwrap();
        assert_eq!(keep(dir.path()).len(), 1);
        std::fs::write(&file, "{").unwrap();
        assert!(!keep(dir.path()).is_checkpointed(), "a broken file is passed over");
    }
}
