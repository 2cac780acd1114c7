//! The terminal itself: raw, on its second screen, and as it was when this is dropped, also by a panic.

use std::io::{Read, Write, stdin, stdout};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::termios::{self, SetArg, SpecialCharacterIndices, Termios};

use super::screen::{self, Line};

/// The second screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

const GONE: Duration = Duration::from_millis(20);

pub struct Terminal {
    before: Termios,
    shown: Vec<Line>,
    size: (usize, usize),
}

impl Terminal {
    pub fn enter() -> anyhow::Result<Terminal> {
        let before = termios::tcgetattr(stdin()).context("the terminal cannot be used")?;
        let mut raw = before.clone();
        termios::cfmakeraw(&mut raw);
        // A read ends after a tenth of a second, typed or not.
        raw.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        raw.control_chars[SpecialCharacterIndices::VTIME as usize] = 1;
        termios::tcsetattr(stdin(), SetArg::TCSANOW, &raw)?;
        let terminal = Terminal { before, shown: Vec::new(), size: (0, 0) };
        print(ENTER)?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        let found = terminal_size::terminal_size_of(stdout());
        found.map_or((80, 24), |(columns, lines)| (columns.0.into(), lines.0.into()))
    }

    pub fn show(&mut self, lines: Vec<Line>) -> std::io::Result<()> {
        let size = self.size();
        let mut bytes = String::new();
        if size != self.size {
            self.size = size;
            self.shown.clear();
            bytes.push_str("\x1b[2J");
        }
        bytes += &screen::paint(&self.shown, &lines, size.0);
        self.shown = lines;
        print(&bytes)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There is nobody to tell if the terminal is gone.
        let _ = print(LEAVE);
        let _ = termios::tcsetattr(stdin(), SetArg::TCSANOW, &self.before);
    }
}

fn print(bytes: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes.as_bytes())?;
    out.flush()
}

/// What was typed in a tenth of a second; empty if nothing was. An error: the terminal is gone.
pub fn typed() -> std::io::Result<Vec<u8>> {
    let begun = Instant::now();
    let mut bytes = [0; 256];
    match stdin().lock().read(&mut bytes) {
        // A terminal that is gone has nothing to wait for.
        Ok(0) if begun.elapsed() < GONE => Err(std::io::ErrorKind::UnexpectedEof.into()),
        Ok(length) => Ok(bytes[..length].to_vec()),
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
