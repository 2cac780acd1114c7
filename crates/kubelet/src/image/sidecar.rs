//! The image of the mesh's proxies: the libraries that this program loads. The program itself is mounted into each of them
//! from one file, so that it is in memory once, and the image is made in a moment. No registry has it.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use minik8s_meta::mesh::{SOCKET_DIR, is_sidecar_image};

use super::own::OURSELVES;
use super::slurm_submit::{libraries, read};
use super::{ImagePlace, ImageStore, OwnImage, Recipe};

/// Where the program is in a proxy's container.
pub const PROGRAM: &str = "/minik8s";

pub(super) struct Sidecars;

impl OwnImage for Sidecars {
    fn serves(&self, name: &str) -> bool {
        is_sidecar_image(Some(name))
    }

    /// Under the name that a pod has for it: of this version or another.
    fn make<'a>(&'a self, name: &'a str, place: ImagePlace<'a>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let of_image = name.to_owned();
            let image = tokio::task::spawn_blocking(move || recipe(&of_image)?.image());
            let image = image.await.map_err(|error| error.to_string())?;
            let image = image.map_err(|error| format!("cannot make the image of proxies: {error}"))?;
            let store = ImageStore::new(place.containerd_socket);
            store.put(&image).await.map_err(|error| error.to_string())
        })
    }
}

fn recipe(name: &str) -> io::Result<Recipe> {
    let mut recipe = Recipe::new(name)
        .directory("tmp", 0o1777)
        .directory("run", 0o755)
        .directory(SOCKET_DIR.trim_start_matches('/'), 0o755)
        .file("etc/passwd", 0o644, b"minik8s-proxy:x:1337:1337::/:/bin/false\n".to_vec())
        .file("etc/group", 0o644, b"minik8s-proxy:x:1337:\n".to_vec())
        .file(PROGRAM.trim_start_matches('/'), 0o755, Vec::new())
        .user("1337:1337")
        .entrypoint(&[PROGRAM, "sidecar"]);
    for library in libraries(OURSELVES)? {
        let content = read(&library)?;
        recipe = recipe.file(library.to_string_lossy().trim_start_matches('/'), 0o755, content);
    }
    Ok(recipe)
}

/// This very program as a file that stays, also after a newer one has taken its place: proxies are started anew from it.
pub fn program(data_dir: &Path) -> io::Result<PathBuf> {
    let own = std::fs::metadata(OURSELVES)?;
    let dir = data_dir.join("sidecar");
    std::fs::create_dir_all(&dir)?;
    let file = dir.join(format!("minik8s-{:x}-{:x}-{:x}", own.size(), own.mtime(), own.mtime_nsec()));
    if std::fs::metadata(&file).is_ok_and(|known| known.size() == own.size()) {
        return Ok(file);
    }
    let linked = std::fs::read_link(OURSELVES).and_then(|path| std::fs::hard_link(path, &file));
    // Another file system, or the program is gone from where it was.
    if linked.is_err() || std::fs::metadata(&file)?.size() != own.size() {
        let new = file.with_extension("new");
        std::fs::copy(OURSELVES, &new)?;
        // By its times a proxy knows whether its node runs the same program.
        std::fs::File::options().write(true).open(&new)?.set_modified(own.modified()?)?;
        std::fs::rename(&new, &file)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_kept_as_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = program(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().size(), std::fs::metadata(OURSELVES).unwrap().size());
        assert_eq!(program(dir.path()).unwrap(), file, "the same program, the same file");
    }
}
