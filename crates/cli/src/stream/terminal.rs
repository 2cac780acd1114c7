//! The terminal this program runs in: raw while a remote shell has it, and how large it is.

use std::io::{IsTerminal, stdin, stdout};

use nix::sys::termios::{self, SetArg, Termios};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// While it lives, keys go through as they are pressed. The terminal is as before when it is dropped.
pub struct RawMode {
    before: Option<Termios>,
}

impl RawMode {
    /// Does nothing where standard input is no terminal.
    pub fn enter() -> RawMode {
        let before = stdin().is_terminal().then(|| termios::tcgetattr(stdin()).ok()).flatten();
        if let Some(before) = &before {
            let mut raw = before.clone();
            termios::cfmakeraw(&mut raw);
            let _ = termios::tcsetattr(stdin(), SetArg::TCSANOW, &raw);
        }
        RawMode { before }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(stdin(), SetArg::TCSANOW, before);
        }
    }
}

/// The sizes of the terminal: the first at once, then each change.
pub struct Sizes {
    changes: Option<Signal>,
    told: bool,
}

impl Sizes {
    pub fn new(wanted: bool) -> Sizes {
        let changes =
            if wanted && stdout().is_terminal() { signal(SignalKind::window_change()).ok() } else { None };
        Sizes { changes, told: false }
    }

    /// Columns and lines. Never returns where there is nothing to tell.
    pub async fn next(&mut self) -> (u16, u16) {
        loop {
            match &mut self.changes {
                None => std::future::pending::<()>().await,
                Some(changes) if self.told => {
                    changes.recv().await;
                }
                Some(_) => self.told = true,
            }
            if let Some((columns, lines)) = terminal_size::terminal_size_of(stdout()) {
                return (columns.0, lines.0);
            }
        }
    }
}
