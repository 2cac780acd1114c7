//! Images of programs of Debian packages (`minik8s_meta::packaged_image`), from the packages of this machine.

use std::io;

use futures::future::BoxFuture;
use minik8s_meta::packaged_image::{PackagedImage, packaged_image};

use super::own::make_apart;
use super::packages::Packages;
use super::{ImagePlace, OwnImage, Recipe};

const PASSWD: &[u8] = b"root:x:0:0:root:/:/bin/false\nnobody:x:65532:65532:nobody:/tmp:/bin/false\n";
const GROUP: &[u8] = b"root:x:0:\nnobody:x:65532:\n";

pub(super) struct PackagedImages;

impl OwnImage for PackagedImages {
    fn serves(&self, name: &str) -> bool {
        packaged_image(name).is_some()
    }

    fn make<'a>(&'a self, name: &'a str, place: ImagePlace<'a>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { make_apart(&["make", name], place.data_dir).await })
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
