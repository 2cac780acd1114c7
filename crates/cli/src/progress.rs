//! What a long command is doing, in one line that is written over again and again.
//!
//! The line goes to standard error, only where that is a terminal, and is gone before anything else is printed: what a
//! command says is the same with it and without it, and in a pipe there is nothing else. Quick work never shows it.
//! There is one line, as there is one terminal; work within work takes it over.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Work that is done sooner shows nothing.
const QUIET: Duration = Duration::from_millis(400);
/// How often the line is written anew.
const TURN: Duration = Duration::from_millis(100);
const WHEEL: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Back to the line's beginning, and erase it.
const ERASE: &str = "\r\u{1b}[K";

static LINE: Mutex<Line> =
    Mutex::new(Line { owner: 0, text: String::new(), begun: None, turns: 0, is_shown: false });

/// The line as it is now.
pub struct Line {
    /// Which work it is about; whoever began last has it.
    owner: u64,
    text: String,
    /// None: nothing is going on.
    begun: Option<Instant>,
    turns: usize,
    is_shown: bool,
}

/// Work that is going on until this is dropped.
#[must_use = "the line goes when this is dropped"]
#[derive(Debug)]
pub struct Progress {
    /// None where nobody is looking.
    owner: Option<u64>,
}

impl Progress {
    /// Shows the text on a terminal.
    pub fn begin(text: impl Display) -> Progress {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_dumb || !stderr().is_terminal() {
            return Progress::hidden();
        }
        let mut line = aside();
        let owner = line.owner + 1;
        let begun = Some(Instant::now());
        *line = Line { owner, text: text.to_string(), begun, turns: 0, is_shown: false };
        std::thread::spawn(move || turn(owner));
        Progress { owner: Some(owner) }
    }

    /// Never shows anything.
    pub fn hidden() -> Progress {
        Progress { owner: None }
    }

    /// Says something else from now on.
    pub fn say(&self, text: impl Display) {
        let Some(owner) = self.owner else { return };
        let mut line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
        if line.owner == owner {
            line.text = text.to_string();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(owner) = self.owner else { return };
        let mut line = aside();
        if line.owner == owner {
            line.begun = None;
        }
    }
}

/// Takes the line away, and keeps it away while the guard lives: for whoever prints.
pub fn aside() -> MutexGuard<'static, Line> {
    let mut line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    if line.is_shown {
        let _ = write!(stderr(), "{ERASE}");
        line.is_shown = false;
    }
    line
}

/// Writes the line again and again while the work goes on.
fn turn(owner: u64) {
    loop {
        std::thread::sleep(TURN);
        let mut line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(begun) = line.begun.filter(|_| line.owner == owner) else { return };
        if begun.elapsed() < QUIET {
            continue;
        }
        let width =
            terminal_size::terminal_size_of(stderr()).map_or(80, |(columns, _)| usize::from(columns.0));
        let text = written(&line.text, begun.elapsed(), line.turns, width);
        line.turns += 1;
        line.is_shown = true;
        let _ = write!(stderr(), "\r{text}\u{1b}[K");
    }
}

/// One state of the line: never wider than the terminal, or it could not be written over.
fn written(text: &str, elapsed: Duration, turns: usize, width: usize) -> String {
    let line = format!("{} {text}  {}s", WHEEL[turns % WHEEL.len()], elapsed.as_secs());
    let most = if width == 0 { 79 } else { width.saturating_sub(1) };
    line.chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line() {
        let check = |turns: usize, width: usize, expected: &str| {
            assert_eq!(written("waiting for pod/a", Duration::from_millis(2700), turns, width), expected);
        };
        check(0, 80, "⠋ waiting for pod/a  2s");
        check(11, 80, "⠙ waiting for pod/a  2s");
        check(0, 10, "⠋ waiting");
        check(0, 0, "⠋ waiting for pod/a  2s");
    }

    /// In a pipe, as here, there is nothing to take away and nothing to write.
    #[test]
    fn nothing_in_a_pipe() {
        let progress = Progress::hidden();
        progress.say("something");
        assert!(LINE.lock().unwrap().begun.is_none());
    }
}
