//! The text of an expression and what is wrong with it: errors with line, column and a caret below the place.
//!
//! Places are counted in characters, not bytes, so that the caret stands where an editor would put it.

use std::fmt;

/// How long an expression may be, in characters.
pub const LONGEST: usize = 100_000;
const MOST_ERRORS: usize = 100;

/// A fault at a place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    pub line: usize,
    /// From 1, as it is shown.
    pub column: usize,
    pub message: String,
    shown: String,
}

/// Every fault of one expression, by place.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct CompileErrors(pub Vec<CompileError>);

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().take(MOST_ERRORS).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        match self.0.len().checked_sub(MOST_ERRORS) {
            Some(more @ 1..) => write!(f, "\n{more} more errors were truncated"),
            _ => Ok(()),
        }
    }
}

/// Collects faults while the text is read and checked.
pub struct Faults<'t> {
    text: &'t str,
    found: Vec<(u32, String)>,
}

impl<'t> Faults<'t> {
    pub fn new(text: &'t str) -> Self {
        Faults { text, found: Vec::new() }
    }

    pub fn add(&mut self, at: u32, message: impl Into<String>) {
        self.found.push((at, message.into()));
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn finish(mut self) -> CompileErrors {
        self.found.sort_by_key(|(at, _)| *at);
        let text = self.text;
        CompileErrors(self.found.into_iter().map(|(at, message)| locate(text, at, message)).collect())
    }
}

fn locate(text: &str, at: u32, message: String) -> CompileError {
    let before = text.chars().take(at as usize);
    let (mut line, mut column) = (1, 0);
    for character in before {
        (line, column) = if character == '\n' { (line + 1, 0) } else { (line, column + 1) };
    }
    let snippet = text.split('\n').nth(line - 1).unwrap_or_default().replace('\t', " ");
    let dots = snippet.chars().take(column).map(|c| if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
    let wide = snippet.chars().nth(column).is_some_and(|c| c.len_utf8() > 1);
    let caret = if wide { '\u{ff3e}' } else { '^' };
    let column = column + 1;
    let pointer: String = dots.collect();
    let shown = format!("ERROR: <input>:{line}:{column}: {message}\n | {snippet}\n | {pointer}{caret}");
    CompileError { line, column, message, shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_shown_in_the_order_of_their_places() {
        let mut faults = Faults::new("a +\nb");
        faults.add(4, "second");
        faults.add(2, "first");
        let expected = "ERROR: <input>:1:3: first\n | a +\n | ..^\nERROR: <input>:2:1: second\n | b\n | ^";
        assert_eq!(faults.finish().to_string(), expected);
    }
}
