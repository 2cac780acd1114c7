//! The small images that tests and examples use, made of Debian's static busybox.

use std::io;
use std::process::Command;

use super::Recipe;

/// Every tool of busybox, by its name.
pub const BUSYBOX: &str = "minik8s.io/busybox:1";
/// A web server.
pub const WEB: &str = "minik8s.io/web:1";

const PROGRAM: &str = "/bin/busybox";

pub fn busybox() -> io::Result<Recipe> {
    from_busybox(BUSYBOX)
}

/// Listens on port 80 (or `$PORT`) and answers every path with the name of its pod.
pub fn web() -> io::Result<Recipe> {
    let start = b"#!/bin/sh\nmkdir -p /tmp/www\nhostname >/tmp/www/index.html\nexec httpd -f -p \"${PORT:-80}\" -h /tmp/www\n";
    Ok(from_busybox(WEB)?.file("bin/web", 0o755, start.to_vec()).entrypoint(&["/bin/web"]))
}

fn from_busybox(name: &str) -> io::Result<Recipe> {
    let missing = |e: io::Error| io::Error::new(e.kind(), format!("{PROGRAM}: {e}; install busybox-static"));
    let program = std::fs::read(PROGRAM).map_err(missing)?;
    let tools = Command::new(PROGRAM).arg("--list").output()?.stdout;
    let mut recipe = Recipe::new(name)
        .directory("tmp", 0o1777)
        .directory("root", 0o700)
        .directory("etc", 0o755)
        .file(
            "etc/passwd",
            0o644,
            b"root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1000::/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
                .to_vec(),
        )
        .file("etc/group", 0o644, b"root:x:0:\nweb:x:1000:\nextra:x:2000:web\nnogroup:x:65534:\n".to_vec())
        .file("bin/busybox", 0o755, program)
        .env("PATH", "/bin")
        .command(&["sh"]);
    for tool in String::from_utf8_lossy(&tools).lines().filter(|&tool| tool != "busybox") {
        recipe = recipe.link(&format!("bin/{tool}"), "busybox");
    }
    Ok(recipe)
}
