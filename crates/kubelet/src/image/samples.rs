//! The small images that tests and examples use, made of Debian's static busybox.

use std::io;
use std::process::Command;

use super::Recipe;

/// Every tool of busybox, by its name.
pub const BUSYBOX: &str = "minik8s.io/busybox:1";
/// A web server.
pub const WEB: &str = "minik8s.io/web:1";
const LOAD: &str = "minik8s.io/load:1";

const PROGRAM: &str = "/bin/busybox";

const WEB_SCRIPT: &str = r#"#!/bin/sh
mkdir -p /tmp/www
hostname >/tmp/www/index.html
exec httpd -f -p "${PORT:-80}" -h /tmp/www
"#;

/// Makes load: `cpu` burns one core, `memory MIB` takes and holds memory, `http URL` asks without a pause.
const LOAD_SCRIPT: &str = r#"#!/bin/sh
case $1 in
  cpu) while :; do :; done ;;
  memory)
    # Doubling a string would overshoot: grow by one MiB at a time, and hold it.
    mib=$(dd if=/dev/zero bs=1024 count=1024 2>/dev/null | tr '\0' x)
    n=0
    while [ $n -lt "$2" ]; do held=$held$mib; n=$((n+1)); done
    echo "holding $2 MiB"
    while :; do sleep 3600; done ;;
  http) while :; do timeout 5 wget -qO /dev/null "$2" || sleep 0.1; done ;;
  *) echo "usage: load cpu | load memory MIB | load http URL" >&2; exit 2 ;;
esac
"#;

pub fn busybox() -> io::Result<Recipe> {
    from_busybox(BUSYBOX)
}

/// Listens on port 80 (or `$PORT`) and answers with the name of its pod.
pub fn web() -> io::Result<Recipe> {
    Ok(from_busybox(WEB)?.file("bin/web", 0o755, WEB_SCRIPT.into()).entrypoint(&["/bin/web"]))
}

/// See `LOAD_SCRIPT`.
pub fn load() -> io::Result<Recipe> {
    Ok(from_busybox(LOAD)?.file("bin/load", 0o755, LOAD_SCRIPT.into()).entrypoint(&["/bin/load"]))
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
