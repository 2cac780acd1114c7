//! What commands print. A reader that has seen enough (`minik8s image list | head -1`) ends the command quietly and
//! well, where `println!` would panic.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

pub fn line(text: impl Display) -> std::io::Result<()> {
    self::text(format_args!("{text}\n"))
}

/// Prints a text that ends its own lines.
pub fn text(text: impl Display) -> std::io::Result<()> {
    match write!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        written => written,
    }
}

/// The same with words of others, which must not order the terminal about.
pub fn words(text: &str) -> std::io::Result<()> {
    self::text(minik8s_cli::escaped(text))
}
