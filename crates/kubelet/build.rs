//! Builds the pause program (see `pause/pause.c`) with the C compiler that `ring` needs anyway.

use std::path::PathBuf;
use std::process::Command;
use std::{env, process};

fn main() {
    println!("cargo:rerun-if-changed=pause/pause.c");
    println!("cargo:rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("pause");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-Os", "-static", "-nostdlib", "-nostartfiles", "-ffreestanding", "-fno-pie", "-no-pie"])
        .args(["-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-Wall", "-Werror"])
        .args(["-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=4096", "-s", "-o"])
        .arg(&out)
        .arg("pause/pause.c")
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{compiler} ended with {status}")),
        Err(error) => fail(&format!("cannot run {compiler}: {error}")),
    }
}

fn fail(reason: &str) -> ! {
    println!("cargo:error=building the pause program: {reason}");
    process::exit(1)
}
