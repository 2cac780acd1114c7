//! The images of the runtimes of functions. A node makes one from its own packages when the first pod asks for it, so that
//! no registry is needed and nothing is downloaded.

use std::io;

use minik8s_meta::function::{RUNTIMES, Runtime};

use super::packages::Packages;
use super::{ImageStore, Recipe, bytecode};

const PYTHON: &str = include_str!("runtimes/runtime.py");
const NODE: &str = include_str!("runtimes/runtime.js");
const INTERPRETER: &str = "/usr/bin/python3.11";
const PASSWD: &[u8] = b"root:x:0:0:root:/:/bin/false\nfunction:x:65532:65532:function:/tmp:/bin/false\n";
const GROUP: &[u8] = b"root:x:0:\nfunction:x:65532:\n";
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The runtime that an image name means.
pub fn runtime_of(image: &str) -> Option<&'static Runtime> {
    RUNTIMES.iter().find(|runtime| runtime.image == image)
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
