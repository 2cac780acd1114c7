//! Files that hold secrets: mode 0600, and either the old or the new content after a crash, never a part.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::PkiError;

/// Creates the directory, closed to others, with what leads to it.
pub fn create_directory(path: &Path) -> Result<(), PkiError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| PkiError::Write { path: path.to_owned(), source })
}

/// `None` if there is no such file. A file that others can read is closed to them.
pub fn read_secret(path: &Path) -> Result<Option<String>, PkiError> {
    let failed = |source| PkiError::Read { path: path.to_owned(), source };
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "others could read this file with a private key: closing it");
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    }
    // Text that is not UTF-8 is as damaged as any other nonsense: let the parser say so.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Replaces the file in one step that survives power loss.
pub fn write_atomically(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let failed = |source| PkiError::Write { path: path.to_owned(), source };
    let temporary = temporary_name(path);
    let write = || {
        // A leftover of a crash may have another mode, and `mode` only counts for new files.
        remove_if_present(&temporary)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory)?.sync_all()
    };
    write().map_err(failed)
}

/// Removes what a crash in [`write_atomically`] may have left: it can hold a key.
pub fn remove_leftover(path: &Path) -> Result<(), PkiError> {
    let temporary = temporary_name(path);
    remove_if_present(&temporary).map_err(|source| PkiError::Write { path: temporary, source })
}

fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.tmp"))
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
