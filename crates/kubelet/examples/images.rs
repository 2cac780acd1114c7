//! `make images`: builds the small images that examples and tests use, without docker.
//!
//! Usage: `images OUT_DIR`. Needs Debian's busybox-static.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

use minik8s_kubelet::image::Recipe;

const BUSYBOX: &str = "/bin/busybox";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).ok_or("usage: images OUT_DIR")?;
    let out = Path::new(&out);
    std::fs::create_dir_all(out)?;
    for (file, recipe) in [("busybox.tar", busybox("minik8s.io/busybox:1")?), ("web.tar", web()?)] {
        let path = out.join(file);
        recipe.write(BufWriter::new(File::create(&path)?))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Every tool of busybox, by its name.
fn busybox(name: &str) -> Result<Recipe, Box<dyn std::error::Error>> {
    let program = std::fs::read(BUSYBOX).map_err(|e| format!("{BUSYBOX}: {e}; install busybox-static"))?;
    let tools = String::from_utf8(Command::new(BUSYBOX).arg("--list").output()?.stdout)?;
    let mut recipe = Recipe::new(name)
        .directory("tmp", 0o1777)
        .directory("root", 0o700)
        .directory("etc", 0o755)
        .file(
            "etc/passwd",
            0o644,
            b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n".to_vec(),
        )
        .file("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n".to_vec())
        .file("bin/busybox", 0o755, program)
        .env("PATH", "/bin")
        .command(&["sh"]);
    for tool in tools.lines().filter(|&tool| tool != "busybox") {
        recipe = recipe.link(&format!("bin/{tool}"), "busybox");
    }
    Ok(recipe)
}

/// A web server on port 80 that answers every path with the name of its pod.
fn web() -> Result<Recipe, Box<dyn std::error::Error>> {
    let start = b"#!/bin/sh\nmkdir -p /tmp/www\nhostname >/tmp/www/index.html\nexec httpd -f -p \"${PORT:-80}\" -h /tmp/www\n";
    Ok(busybox("minik8s.io/web:1")?.file("bin/web", 0o755, start.to_vec()).entrypoint(&["/bin/web"]))
}
