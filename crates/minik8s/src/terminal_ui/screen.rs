//! Lines of a terminal: text with a style, cut to the width, and the bytes that turn one picture into the next. Only lines
//! that changed are sent, as one write: over SSH that is what makes it quick.

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Colour {
    #[default]
    Plain,
    Faint,
    Red,
    Yellow,
    Cyan,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    pub colour: Colour,
    pub bold: bool,
    pub reversed: bool,
}

pub const PLAIN: Style = Style { colour: Colour::Plain, bold: false, reversed: false };
pub const BOLD: Style = Style { bold: true, ..PLAIN };
pub const FAINT: Style = Style { colour: Colour::Faint, ..PLAIN };

/// Parts of a line, from left to right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(pub Vec<(String, Style)>);

impl Line {
    pub fn of(text: impl Into<String>, style: Style) -> Line {
        Line(vec![(text.into(), style)])
    }

    pub fn add(mut self, text: impl Into<String>, style: Style) -> Line {
        self.0.push((text.into(), style));
        self
    }

    #[cfg(test)]
    pub fn text(&self) -> String {
        self.0.iter().map(|(text, _)| text.as_str()).collect::<String>().trim_end().to_owned()
    }
}

pub fn width(text: &str) -> usize {
    text.width()
}

/// The beginning of a text that fits, filled up with spaces.
pub fn fitted(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if used + wide > columns {
            break;
        }
        used += wide;
        out.push(character);
    }
    out.extend(std::iter::repeat_n(' ', columns - used));
    out
}

/// What a terminal of so many columns is sent to show `next` where `last` was.
pub fn paint(last: &[Line], next: &[Line], columns: usize) -> String {
    let mut bytes = String::new();
    for (at, line) in next.iter().enumerate() {
        if last.get(at) != Some(line) {
            let _ = write!(bytes, "\x1b[{};1H{}", at + 1, escaped(line, columns));
        }
    }
    bytes
}

fn escaped(line: &Line, columns: usize) -> String {
    let mut bytes = String::new();
    let mut left = columns;
    for (text, style) in &line.0 {
        let text = fitted(text, width(text).min(left));
        left -= width(&text);
        let mut codes = vec!["0"];
        codes.extend(match style.colour {
            Colour::Plain => None,
            Colour::Faint => Some("90"),
            Colour::Red => Some("31"),
            Colour::Yellow => Some("33"),
            Colour::Cyan => Some("36"),
        });
        codes.extend(style.bold.then_some("1"));
        codes.extend(style.reversed.then_some("7"));
        let _ = write!(bytes, "\x1b[{}m{text}", codes.join(";"));
    }
    bytes + "\x1b[0m\x1b[K"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_only_news_is_sent() {
        assert_eq!((fitted("中文字", 5), fitted("ab", 4)), ("中文 ".to_owned(), "ab  ".to_owned()));
        let one = vec![Line::of("a", BOLD), Line::of("long line", PLAIN)];
        let two = vec![Line::of("a", BOLD), Line::of("b", Style { colour: Colour::Red, ..PLAIN })];
        assert_eq!(paint(&[], &one, 4), "\x1b[1;1H\x1b[0;1ma\x1b[0m\x1b[K\x1b[2;1H\x1b[0mlong\x1b[0m\x1b[K");
        assert_eq!(paint(&one, &two, 4), "\x1b[2;1H\x1b[0;31mb\x1b[0m\x1b[K");
        assert_eq!(paint(&two, &two, 4), "");
    }
}
