//! What commands print. A reader that has seen enough (`minik8s get pods | head -1`) ends the command quietly
//! and well, where `println!` would panic.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};

use crate::progress;

/// Prints one line.
pub fn line(text: impl Display) {
    self::text(format_args!("{text}\n"));
}

/// Prints a text that ends its own lines.
pub fn text(text: impl Display) {
    bytes(text.to_string().as_bytes());
}

pub fn bytes(bytes: &[u8]) {
    let _aside = progress::aside();
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) {
        let code = if error.kind() == ErrorKind::BrokenPipe { 0 } else { 1 };
        std::process::exit(code);
    }
}

/// Writes one line to standard error: what is no result.
pub fn remark(text: impl Display) {
    let _aside = progress::aside();
    eprintln!("{text}");
}

/// Whether a person is looking: then colours and progress help, in a pipe they would disturb.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
