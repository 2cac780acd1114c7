//! Programs of the file system's packages, run to their end. Each call blocks.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::SharedError;

/// Runs a program that must succeed; what it wrote.
pub fn run<A: AsRef<OsStr>>(
    program: &str,
    package: &'static str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String, SharedError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C");
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SharedError::Missing { program: program.to_owned(), package },
        _ => SharedError::Program { program: program.to_owned(), message: error.to_string() },
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(SharedError::Program { program: program.to_owned(), message: said(&output) }),
    }
}

/// Whether a program is where packages put theirs.
pub fn is_installed(program: &str) -> bool {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|dir| Path::new(dir).join(program).is_file())
}

fn said(output: &Output) -> String {
    let text =
        [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.is_empty() {
        true => output.status.to_string(),
        false => lines.join("; "),
    }
}
