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
    let images =
        [("busybox.tar", busybox("minik8s.io/busybox:1")?), ("web.tar", web()?), ("load.tar", load()?)];
    for (file, recipe) in images {
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

/// A web server on port 80 that answers with the name of its pod.
const WEB: &str = r#"#!/bin/sh
mkdir -p /tmp/www
hostname >/tmp/www/index.html
exec httpd -f -p "${PORT:-80}" -h /tmp/www
"#;

fn web() -> Result<Recipe, Box<dyn std::error::Error>> {
    Ok(busybox("minik8s.io/web:1")?.file("bin/web", 0o755, WEB.into()).entrypoint(&["/bin/web"]))
}

/// Makes load: `cpu` burns one core, `memory MIB` takes and holds memory, `http URL` asks without a pause.
const LOAD: &str = r#"#!/bin/sh
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

fn load() -> Result<Recipe, Box<dyn std::error::Error>> {
    Ok(busybox("minik8s.io/load:1")?.file("bin/load", 0o755, LOAD.into()).entrypoint(&["/bin/load"]))
}
