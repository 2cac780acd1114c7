//! Files that are there as a whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file in one step, and makes the folder that it is in.
pub fn write_atomically(path: &Path, content: &[&[u8]]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Nothing that has a name of its own here begins with a dot.
    let temporary = folder.join(format!(".{name}.{}", uuid::Uuid::new_v4()));
    let written = write(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    sync_folder(folder)
}

fn write(path: &Path, content: &[&[u8]]) -> io::Result<()> {
    let mut file = File::create(path)?;
    content.iter().try_for_each(|part| file.write_all(part))?;
    file.sync_all()
}

/// What was renamed stays so when the power goes.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Names in a folder, sorted; none where there is no folder.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let named = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = named.collect::<io::Result<Vec<String>>>()?;
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names)
}

/// Removes a file; one that is gone is gone.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
