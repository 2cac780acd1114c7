//! What commands print.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// Prints a line. A reader that has seen enough (`minik8s image list | head -1`) ends the command quietly and well,
/// where `println!` would panic.
pub fn line(text: impl Display) -> std::io::Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        written => written,
    }
}
