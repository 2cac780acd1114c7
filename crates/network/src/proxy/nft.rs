//! Hands text to `nft`, and says what it did not like about it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::Stdio;

use minik8s_meta::IpFamily;
use nix::sys::memfd::{MFdFlags, memfd_create};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::{Listing, nft_family};

#[derive(Debug, Error)]
pub enum NftError {
    #[error("cannot run nft: install the package nftables")]
    Missing(#[source] io::Error),
    #[error("cannot talk to nft")]
    Broken(#[source] io::Error),
    #[error("nft refused the rules: {message}; the line is {line:?}")]
    Refused { message: String, line: String },
}

/// The `nft` program of this machine, acting in the network namespace of this process.
#[derive(Debug, Clone, Default)]
pub struct Nft;

impl Nft {
    /// Applies all of the text or nothing.
    pub async fn apply(&self, text: &str) -> Result<(), NftError> {
        self.run(&["-f", "-"], text, Stdio::null()).await
    }

    /// What the table has now; nothing if there is no such table.
    pub async fn list(&self, family: IpFamily, table: &str) -> Result<Listing, NftError> {
        let word = nft_family(family);
        // Listing a table that is not there would fail: it is made, as it is before any rule.
        self.apply(&format!("table {word} {table}\n")).await?;
        // nft writes word by word: into a pipe, each would wake this process. And it looks up every protocol's name in
        // a file unless it is told not to.
        let mut file = memory().map_err(NftError::Broken)?;
        let output = file.try_clone().map_err(NftError::Broken)?;
        self.run(&["-p", "list", "table", word, table], "", output.into()).await?;
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).map_err(NftError::Broken)?;
        Ok(Listing::parse(&text))
    }

    async fn run(&self, arguments: &[&str], text: &str, output: Stdio) -> Result<(), NftError> {
        let mut command = Command::new("nft");
        command.args(arguments).stdin(Stdio::piped()).stdout(output).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NftError::Missing(error),
            _ => NftError::Broken(error),
        })?;
        let mut input =
            child.stdin.take().ok_or_else(|| NftError::Broken(io::ErrorKind::BrokenPipe.into()))?;
        let write = async move {
            // nft may end before it has read everything; why, its error output tells.
            let _ = input.write_all(text.as_bytes()).await;
        };
        let ((), output) = tokio::join!(write, child.wait_with_output());
        let output = output.map_err(NftError::Broken)?;
        if output.status.success() {
            return Ok(());
        }
        Err(refusal(text, &String::from_utf8_lossy(&output.stderr)))
    }

    pub async fn delete_table(&self, family: IpFamily, table: &str) -> Result<(), NftError> {
        let word = nft_family(family);
        self.apply(&format!("table {word} {table}\ndelete table {word} {table}\n")).await
    }
}

/// A file that no directory has.
fn memory() -> io::Result<File> {
    Ok(memfd_create("rules", MFdFlags::MFD_CLOEXEC)?.into())
}

/// nft says `/dev/stdin:LINE:COLUMNS: Error: MESSAGE`, and may say more about other lines.
fn refusal(text: &str, errors: &str) -> NftError {
    let first = errors.lines().find(|line| line.contains("rror")).unwrap_or(errors).trim();
    let number = first.split(':').nth(1).and_then(|number| number.trim().parse::<usize>().ok());
    let line = number.and_then(|number| text.lines().nth(number.checked_sub(1)?));
    let message = first.split_once("Error: ").map_or(first, |(_, message)| message);
    NftError::Refused { message: message.to_owned(), line: line.unwrap_or_default().trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_line() {
        let check = |errors: &str, expected: &str| {
            assert_eq!(refusal("one\n  two\nthree", errors).to_string(), expected);
        };
        check(
            "/dev/stdin:2:3-5: Error: syntax error, unexpected string\n  two\n  ^^^\n",
            "nft refused the rules: syntax error, unexpected string; the line is \"two\"",
        );
        check(
            "Error: Could not process rule: Operation not permitted",
            "nft refused the rules: Could not process rule: Operation not permitted; the line is \"\"",
        );
        check("/dev/stdin:99:1-1: Error: gone", "nft refused the rules: gone; the line is \"\"");
        check("", "nft refused the rules: ; the line is \"\"");
    }
}
