//! A new file with the contents of another store, written beside its place and then put there: a crash leaves
//! nothing half done.

use std::path::{Path, PathBuf};

use super::{Disk, META, VALUES, sync_directory};
use crate::{Contents, Error, Result};

impl Disk {
    /// Everything is at one revision, and there is no history before it.
    pub(in super::super) fn fill(path: &Path, contents: &Contents) -> Result<()> {
        let temporary = beside(path);
        let failed = |error: std::io::Error| Error::Engine(format!("filling {}: {error}", path.display()));
        remove_if_there(&temporary).map_err(failed)?;
        {
            let disk = Disk::open(&temporary)?;
            disk.guarded("preparing", || disk.prepare())?;
            disk.guarded("filling", || {
                let guard = disk.database.read();
                let Some(database) = &*guard else { return Err(redb::Error::DatabaseClosed) };
                let transaction = database.begin_write()?;
                {
                    let mut values = transaction.open_table(VALUES)?;
                    for (key, value) in &contents.entries {
                        values.insert((contents.revision, key.as_str()), &value[..])?;
                    }
                    let mut meta = transaction.open_table(META)?;
                    meta.insert("revision", contents.revision)?;
                    meta.insert("compacted", contents.revision)?;
                }
                Ok(transaction.commit()?)
            })?;
            disk.close();
        }
        std::fs::rename(&temporary, path).and_then(|()| sync_directory(path)).map_err(failed)
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".filling");
    name.into()
}

fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
