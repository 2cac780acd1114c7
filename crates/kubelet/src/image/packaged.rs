//! Images of programs of Debian packages (`minik8s_meta::packaged_image`), from the packages of this machine.

use std::io;
use std::path::Path;

use minik8s_meta::packaged_image::PackagedImage;

use super::Recipe;
use super::packages::Packages;

/// Also after a newer program has taken its place on disk.
const OURSELVES: &str = "/proc/self/exe";
const PASSWD: &[u8] = b"root:x:0:0:root:/:/bin/false\nnobody:x:65532:65532:nobody:/tmp:/bin/false\n";
const GROUP: &[u8] = b"root:x:0:\nnobody:x:65532:\n";

/// Makes the image and gives it to the node's containerd. A process of its own does it, so that its memory, a hundred
/// megabytes for a while, is not the agent's.
pub async fn make(data_dir: &Path, packaged: &PackagedImage) -> Result<(), String> {
    let mut command = tokio::process::Command::new(OURSELVES);
    command.args(["image", "make", packaged.image, "--data-dir"]).arg(data_dir).kill_on_drop(true);
    let output = command.output().await.map_err(|error| format!("cannot start {OURSELVES}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(said.trim().trim_start_matches("minik8s: ").to_owned())
        }
    }
}

/// What is in it. It runs as a user without rights.
pub fn recipe(packaged: &PackagedImage) -> io::Result<Recipe> {
    let recipe = Recipe::new(packaged.image)
        .directory("tmp", 0o1777)
        .directory("etc", 0o755)
        .file("etc/passwd", 0o644, PASSWD.to_vec())
        .file("etc/group", 0o644, GROUP.to_vec())
        .file("etc/nsswitch.conf", 0o644, b"hosts: files dns\n".to_vec())
        .env("PATH", "/usr/bin:/bin")
        .user("65532:65532")
        .entrypoint(&[packaged.program]);
    let links = ["bin", "sbin", "lib", "lib64"];
    let recipe = links.iter().fold(recipe, |recipe, name| recipe.link(name, &format!("usr/{name}")));
    Packages::read()?.add_some_to(recipe, packaged.packages, &|path| !packaged.without.contains(&path))
}
