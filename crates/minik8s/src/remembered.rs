//! What an agent knew when it ended, in files of its data dir, so that the next run can go on from it while no server
//! answers.
//!
//! A file is replaced as a whole, never changed in place. A broken one is passed over: all it could do is help.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Between two writes at least, and so many times as long as the last one took: writing is not what this machine is for.
const PAUSE: Duration = Duration::from_secs(2);
const SHARE: u32 = 50;

pub struct Remembered(PathBuf);

impl Remembered {
    pub fn new(data_dir: &Path, name: &str) -> Remembered {
        Remembered(data_dir.join(format!("{name}.json")))
    }

    pub fn read<T>(&self, parse: impl FnOnce(&[u8]) -> serde_json::Result<T>) -> Option<T> {
        let bytes = std::fs::read(&self.0).ok()?;
        let parsed = parse(&bytes);
        parsed.inspect_err(|error| tracing::warn!(%error, "cannot use {}", self.0.display())).ok()
    }

    /// Of a node that is no more.
    pub fn forget(self) {
        let _ = std::fs::remove_file(self.0);
    }

    /// Writes the newest value whenever there is one, until its source is gone.
    pub fn keep<T: Send + Sync + 'static>(
        self,
        mut values: watch::Receiver<Arc<T>>,
        print: fn(&T) -> serde_json::Result<Vec<u8>>,
    ) {
        tokio::spawn(async move {
            let path = Arc::new(self.0);
            while values.changed().await.is_ok() {
                let (value, path, started) =
                    (values.borrow_and_update().clone(), path.clone(), Instant::now());
                let written = tokio::task::spawn_blocking(move || write(&path, &print(&value)?)).await;
                if let Ok(Err(error)) = written {
                    tracing::warn!(%error, "cannot keep what this node knows for its next start");
                }
                tokio::time::sleep(PAUSE.max(started.elapsed() * SHARE)).await;
            }
        });
    }
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, bytes)?;
    // Without this a power failure could leave an empty file under the old name.
    std::fs::File::open(&new)?.sync_data()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(value: &String) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(value)
    }

    #[tokio::test]
    async fn the_newest_value_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let file = || Remembered::new(dir.path(), "known");
        let read = || file().read(|bytes| serde_json::from_slice::<String>(bytes));
        assert_eq!(read(), None);
        let (sender, values) = watch::channel(Arc::new(String::new()));
        file().keep(values, print);
        sender.send_replace(Arc::new("one".to_owned()));
        while read().as_deref() != Some("one") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!dir.path().join("known.new").exists());
        std::fs::write(dir.path().join("known.json"), "{").unwrap();
        assert_eq!(read(), None, "a broken file is passed over");
    }
}
