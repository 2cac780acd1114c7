//! The host's programs that make and mount file systems. Each call blocks, and an error carries what the program said.

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Output, Stdio};

use super::StorageError;

/// Runs a program to its end, whatever that is.
pub fn output<A: AsRef<OsStr>>(
    program: &'static str,
    package: &'static str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<Output, StorageError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C");
    command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StorageError::Missing { program, package },
        _ => StorageError::Program { program, message: error.to_string() },
    })
}

/// Runs a program that must succeed, and gives what it wrote.
pub fn run<A: AsRef<OsStr>>(
    program: &'static str,
    package: &'static str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<String, StorageError> {
    let output = output(program, package, arguments)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(StorageError::Program { program, message: said(&output) }),
    }
}

/// What a program has said, on one line.
pub fn said(output: &Output) -> String {
    let text =
        [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.is_empty() {
        true => output.status.to_string(),
        false => lines.join("; "),
    }
}
