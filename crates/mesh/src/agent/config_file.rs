//! What a proxy was told last, in a file beside its sockets: a proxy that is started while no agent tells it anything begins
//! with that. Keys are never in it, and agents never read it: what they tell is always what the server says.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::mesh::{CONFIG_FILE, SIDECAR_UID};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::proxies::Encoded;
use crate::protocol::Own;

/// Where the next [`CONFIG_FILE`] is written.
const NEW_CONFIG_FILE: &str = "config.new";
/// Between two of them, unless it is about who may come in.
const NOTE_PAUSE: Duration = Duration::from_secs(2);

/// Writes down what the proxy is told, whenever that changes.
pub async fn keep(
    dir: PathBuf,
    mut config: watch::Receiver<Arc<Encoded>>,
    mut own: watch::Receiver<Option<Own>>,
) {
    let mut noted: Option<(u64, Own)> = None;
    loop {
        let newest = config.borrow_and_update().clone();
        let lasting = own.borrow_and_update().as_ref().map(Own::lasting);
        let mut next = Instant::now();
        let wanted = lasting.filter(|_| newest.version > 0).map(|own| (newest.version, own));
        if wanted.is_some() && wanted != noted {
            next += NOTE_PAUSE;
            noted.clone_from(&wanted);
            let dir = dir.clone();
            let writing = tokio::task::spawn_blocking(move || match wanted {
                Some((_, own)) => write(&dir, &newest.line(&own)?),
                None => Ok(()),
            });
            if let Ok(Err(error)) = writing.await {
                warn!(%error, "what a proxy is told was not written down");
            }
        }
        let later = async {
            sleep_until(next).await;
            config.changed().await
        };
        let changed = tokio::select! {
            changed = later => changed,
            changed = own.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// As a whole or not at all, for root and the proxy to read.
fn write(dir: &Path, text: &[u8]) -> io::Result<()> {
    let new = dir.join(NEW_CONFIG_FILE);
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(&new)?;
    let user = u32::try_from(SIDECAR_UID).ok();
    fchown(&file, user, user)?;
    file.write_all(text)?;
    std::fs::rename(&new, dir.join(CONFIG_FILE))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::protocol::{Config, Credentials, Inbound};

    /// For a proxy that is started while no agent is there: nobody else may read it, and the key is not in it.
    #[tokio::test]
    async fn what_a_proxy_is_told_is_written_down_without_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let encoded = |version: u64| {
            let shared = format!("{{\"version\":{version},\"routes\":[]").into();
            Arc::new(Encoded { version, shared })
        };
        let (config, receiver) = watch::channel(encoded(1));
        let (told, own_receiver) = watch::channel(None);
        let keeping = tokio::spawn(keep(dir.path().to_owned(), receiver, own_receiver));
        let file = dir.path().join(CONFIG_FILE);
        let becomes = async |version: u64, strict: bool| {
            let holds = async || loop {
                let known = std::fs::read(&file).ok().map(|text| {
                    assert!(!String::from_utf8_lossy(&text).contains("secret"));
                    serde_json::from_slice::<Config>(&text).unwrap()
                });
                if known.is_some_and(|one| (one.version, one.own.inbound.strict) == (version, strict)) {
                    return;
                }
                sleep(Duration::from_millis(10)).await;
            };
            timeout(Duration::from_secs(60), holds()).await.expect("it is written down");
        };
        let own = |strict: bool| {
            let inbound = Inbound { strict, ..Inbound::default() };
            let credentials = Credentials { certificates: "secret".to_owned(), key: "secret".to_owned() };
            Some(Own { inbound, credentials: Some(credentials), ..Own::default() })
        };
        assert!(!file.exists(), "nothing is known of who may come in");
        told.send_replace(own(true));
        becomes(1, true).await;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o400);
        config.send_replace(encoded(2));
        becomes(2, true).await;
        told.send_replace(own(false));
        becomes(2, false).await;
        drop(told);
        keeping.await.unwrap();
    }
}
