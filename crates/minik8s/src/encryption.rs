//! `--encryption-provider-config`: the store as the server sees it, and the file that says how its values lie there.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use minik8s_encryption::{EncryptedStore, Rules, refuse_encrypted};
use minik8s_store::Store;
use tokio_util::sync::CancellationToken;

/// The file and the store that is encrypted by it.
pub type Encrypted = Option<(PathBuf, Arc<EncryptedStore>)>;

/// Without a file it is the store itself, which must not have encrypted values.
pub async fn wrap(store: Arc<dyn Store>, path: Option<&Path>) -> anyhow::Result<(Arc<dyn Store>, Encrypted)> {
    let Some(path) = path else {
        refuse_encrypted(&*store).await?;
        return Ok((store, None));
    };
    let at = || format!("--encryption-provider-config {}", path.display());
    let rules = Rules::read(path).await.with_context(at)?;
    warn_if_open(path);
    let store = EncryptedStore::open(store, rules).await?;
    Ok((store.clone(), Some((path.to_owned(), store))))
}

/// Takes over changes of the file, until `stop`.
pub async fn follow(path: PathBuf, store: Arc<EncryptedStore>, stop: CancellationToken) {
    tokio::select! {
        () = minik8s_encryption::follow(path, store) => {}
        () = stop.cancelled() => {}
    }
}

fn warn_if_open(path: &Path) {
    let mode = std::fs::metadata(path).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 != 0 {
        let (file, mode) = (path.display(), mode & 0o777);
        tracing::warn!(%file, "others on this machine can read the keys in it: its mode is {mode:o}, use 600");
    }
}
