//! The images of the runtimes of functions, and of the pods that fetch what functions depend on. A node makes one from its
//! own packages when the first pod asks for it, so that no registry is needed and nothing is downloaded.

use std::io;
use std::path::Path;

use futures::future::BoxFuture;
use minik8s_meta::function::{RUNTIMES, Runtime};

use super::packages::{Packages, add_path};
use super::{ImagePlace, ImageStore, Overlay, OwnImage, Recipe, bytecode};

/// One program of several files, since one file is compiled into one of the image.
const PYTHON: &str = concat!(
    include_str!("runtimes/runtime.py"),
    include_str!("runtimes/answer.py"),
    include_str!("runtimes/websocket.py"),
    include_str!("runtimes/front.py"),
);
const NODE: &str = include_str!("runtimes/runtime.js");
const PYTHON_BUILDER: &str = include_str!("runtimes/builder.py");
const NODE_BUILDER: &str = include_str!("runtimes/builder.js");
/// Where npm is if it came with Node itself instead of a package of its own.
const BUNDLED_NPM: &str = "/usr/lib/node_modules/npm";
const INTERPRETER: &str = "/usr/bin/python3.11";
const PASSWD: &[u8] = b"root:x:0:0:root:/:/bin/false\nfunction:x:65532:65532:function:/tmp:/bin/false\n";
const GROUP: &[u8] = b"root:x:0:\nfunction:x:65532:\n";
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The runtime that an image name means.
pub fn runtime_of(image: &str) -> Option<&'static Runtime> {
    RUNTIMES.iter().find(|runtime| runtime.image == image)
}

/// The runtime whose dependencies an image fetches.
fn builder_of(image: &str) -> Option<&'static Runtime> {
    RUNTIMES.iter().find(|runtime| runtime.builder == image)
}

pub(super) struct Runtimes;

impl OwnImage for Runtimes {
    fn serves(&self, name: &str) -> bool {
        runtime_of(name).is_some()
    }

    fn make<'a>(&'a self, name: &'a str, place: ImagePlace<'a>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let runtime = runtime_of(name).ok_or_else(|| format!("{name} is no runtime"))?;
            make(&ImageStore::new(place.containerd_socket), runtime).await
        })
    }
}

pub(super) struct Builders;

impl OwnImage for Builders {
    fn serves(&self, name: &str) -> bool {
        builder_of(name).is_some()
    }

    fn make<'a>(&'a self, name: &'a str, place: ImagePlace<'a>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let runtime = builder_of(name).ok_or_else(|| format!("{name} is of no runtime"))?;
            make_builder(&ImageStore::new(place.containerd_socket), runtime).await
        })
    }
}

/// What runs handlers in the image of a runtime.
pub fn program(runtime: &Runtime) -> &'static str {
    if runtime.file == "main.py" { PYTHON } else { NODE }
}

/// Makes the image of a runtime and puts it into the node's store.
pub async fn make(store: &ImageStore, runtime: &'static Runtime) -> Result<(), String> {
    let image = tokio::task::spawn_blocking(move || recipe(runtime)?.image());
    let image = image.await.map_err(|error| error.to_string())?;
    let image = image.map_err(|error| format!("cannot make the image of {}: {error}", runtime.name))?;
    store.put(&image).await.map_err(|error| error.to_string())
}

/// Makes the image that fetches what code for a runtime depends on: the runtime's, and a layer with this machine's package
/// client. Nothing of the client's settings is in it: they may hold secrets of the machine.
async fn make_builder(store: &ImageStore, runtime: &'static Runtime) -> Result<(), String> {
    let told =
        |error: String| format!("cannot make the image that fetches packages for {}: {error}", runtime.name);
    if !store.exists(runtime.image).await.map_err(|error| told(error.to_string()))? {
        make(store, runtime).await?;
    }
    let client = tokio::task::spawn_blocking(move || client(runtime)).await;
    let client = client.map_err(|error| told(error.to_string()))?.map_err(|error| told(error.to_string()))?;
    let (interpreter, program) = match runtime.file {
        "main.py" => (INTERPRETER, "/fn/builder.py"),
        _ => ("/usr/bin/node", "/fn/builder.js"),
    };
    let entrypoint = vec![interpreter.to_owned(), program.to_owned()];
    let overlay = Overlay { entrypoint, ..Overlay::default() };
    let built = store.build(runtime.image, &client, &overlay, runtime.builder).await;
    built.map(drop).map_err(|error| told(error.to_string()))
}

/// The files of a language's package client, and the program that asks it.
fn client(runtime: &Runtime) -> io::Result<Recipe> {
    let recipe = Recipe::new(runtime.builder);
    if runtime.file == "main.py" {
        let recipe = Packages::read()?.add_to(recipe, &["python3-pip"])?;
        return Ok(recipe.file("fn/builder.py", 0o644, PYTHON_BUILDER.into()));
    }
    let recipe = match Path::new(BUNDLED_NPM).is_dir() {
        true => add_tree(recipe, Path::new(BUNDLED_NPM))?,
        false => Packages::read()?.add_to(recipe, &["npm"])?,
    };
    Ok(recipe.file("fn/builder.js", 0o644, NODE_BUILDER.into()))
}

/// A folder of this machine with all that is in it, at the same place.
fn add_tree(recipe: Recipe, folder: &Path) -> io::Result<Recipe> {
    let mut recipe = add_path(recipe, &folder.to_string_lossy())?;
    let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        recipe = match entry.file_type()?.is_dir() {
            true => add_tree(recipe, &entry.path())?,
            false => add_path(recipe, &entry.path().to_string_lossy())?,
        };
    }
    Ok(recipe)
}

/// The image of a runtime, from the packages of this machine.
pub fn recipe(runtime: &Runtime) -> io::Result<Recipe> {
    let recipe = Recipe::new(runtime.image)
        .directory("tmp", 0o1777)
        .directory("etc", 0o755)
        .directory("fn", 0o755)
        .directory("fn/code", 0o755)
        .file("etc/passwd", 0o644, PASSWD.to_vec())
        .file("etc/group", 0o644, GROUP.to_vec())
        .env("PATH", "/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .env("HOME", "/tmp")
        .user("65532:65532");
    let links = ["bin", "sbin", "lib", "lib64"];
    let recipe = links.iter().fold(recipe, |recipe, name| recipe.link(name, &format!("usr/{name}")));
    let recipe = Packages::read()?.add_to(recipe, runtime.packages)?;
    // The package has none: they are put together when it is configured.
    let recipe = match std::fs::read(CERTIFICATES) {
        Ok(content) => recipe.directory("etc/ssl", 0o755).directory("etc/ssl/certs", 0o755).file(
            CERTIFICATES.trim_start_matches('/'),
            0o644,
            content,
        ),
        Err(_) => recipe,
    };
    Ok(match runtime.file {
        "main.py" => {
            let recipe = recipe.env("PYTHONDONTWRITEBYTECODE", "1");
            match bytecode::compile(INTERPRETER, PYTHON, "/fn/runtime.pyc") {
                Some(compiled) => recipe
                    .file("fn/runtime.pyc", 0o644, compiled)
                    .entrypoint(&[INTERPRETER, "/fn/runtime.pyc"]),
                None => recipe
                    .file("fn/runtime.py", 0o644, PYTHON.into())
                    .entrypoint(&[INTERPRETER, "/fn/runtime.py"]),
            }
        }
        _ => {
            recipe.file("fn/runtime.js", 0o644, NODE.into()).entrypoint(&["/usr/bin/node", "/fn/runtime.js"])
        }
    })
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// A node keeps the image that it has made under a tag.
    #[test]
    fn programs_changed_need_a_new_tag() {
        let [python, node] = RUNTIMES else { panic!("another runtime: pin it here") };
        for (image, program, tag, pinned) in [
            (
                python.image,
                PYTHON,
                "minik8s.io/function-python:3.11-7",
                "006e6208979362dd3aab49cc800508a736a5d9265d9e5e8bd2bb18422c872337",
            ),
            (
                python.builder,
                PYTHON_BUILDER,
                "minik8s.io/function-python-builder:3.11-2",
                "0903ae193b9f8f2ac818da0e3356ccd3685036cf7c9f84e864297e9c2f0d7828",
            ),
            (
                node.image,
                NODE,
                "minik8s.io/function-nodejs:5",
                "e9ca3346c27b2f6b5d5c66701c4eb7eef47ff3712fee2d996ceb62c3937d2df7",
            ),
            (
                node.builder,
                NODE_BUILDER,
                "minik8s.io/function-nodejs-builder:2",
                "5c948eeeeac7e2cb5fb8273c5710840f8bb84195dfd4934a659a8a81bda5663d",
            ),
        ] {
            let digest: String = Sha256::digest(program).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(
                (image, digest.as_str()),
                (tag, pinned),
                "raise the tag in meta/src/own/function.rs and wherever it is named, then pin both here"
            );
        }
    }
}
