//! Columns as Go's `text/tabwriter` makes them, which decides how every kubectl output looks: a cell ends at a
//! tab, and a column is as wide as its widest cell among neighbouring lines that have that column.
//!
//! What stands in the cells may come from anybody who can write an event or end a container with a message, and must not
//! reach the terminal as orders.

use std::borrow::Cow;

/// How columns are set.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub least: usize,
    pub padding: usize,
}

/// The tables of `get`.
pub const TABLE: Style = Style { least: 6, padding: 3 };
/// The texts of `describe`.
pub const DESCRIPTION: Style = Style { least: 0, padding: 2 };

/// A text in which nothing begins an order to a terminal, as kubectl writes it.
pub fn escaped(text: &str) -> Cow<'_, str> {
    match text.contains(['\u{1b}', '\r']) {
        true => Cow::Owned(text.replace('\u{1b}', "^[").replace('\r', "\\r")),
        false => Cow::Borrowed(text),
    }
}

/// Sets the cells of a text.
pub fn align(text: &str, style: Style) -> String {
    let text = &*escaped(text);
    let lines: Vec<Vec<&str>> = text.split('\n').map(|line| line.split('\t').collect()).collect();
    let mut out = String::new();
    format(&lines, 0, lines.len(), &mut Vec::new(), style, &mut out);
    // Splitting gave one line more than there are newlines.
    out.pop();
    out
}

/// Lines from `first` to `end`, whose columns so far have these widths.
fn format(
    lines: &[Vec<&str>],
    first: usize,
    end: usize,
    widths: &mut Vec<usize>,
    style: Style,
    out: &mut String,
) {
    let column = widths.len();
    let (mut start, mut this) = (first, first);
    while this < end {
        if column + 1 >= lines[this].len() {
            this += 1;
            continue;
        }
        // A column begins here: first what stands above it.
        write(&lines[start..this], widths, out);
        start = this;
        let mut width = style.least;
        while this < end && column + 1 < lines[this].len() {
            width = width.max(lines[this][column].chars().count() + style.padding);
            this += 1;
        }
        widths.push(width);
        format(lines, start, this, widths, style, out);
        widths.pop();
        start = this;
    }
    write(&lines[start..end], widths, out);
}

fn write(lines: &[Vec<&str>], widths: &[usize], out: &mut String) {
    for line in lines {
        for (i, cell) in line.iter().enumerate() {
            out.push_str(cell);
            if let Some(width) = widths.get(i) {
                let missing = width.saturating_sub(cell.chars().count());
                out.extend(std::iter::repeat_n(' ', missing));
            }
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        assert_eq!(
            align("NAME\tDATA\tAGE\na\t1\t5s\nlonger-name\t22\t5s\n", TABLE),
            "NAME          DATA   AGE\na             1      5s\nlonger-name   22     5s\n"
        );
    }

    /// Columns end where a line does not have them.
    #[test]
    fn descriptions() {
        assert_eq!(
            align(
                "Name:\tx\nNamespace:\tdefault\nLabels:\ta=b\n\tc=d\nEvents:\n  Type\tReason\n  ----\t------\n",
                DESCRIPTION
            ),
            "Name:       x\nNamespace:  default\nLabels:     a=b\n            c=d\nEvents:\n  Type  Reason\n  ----  ------\n"
        );
    }

    /// A title, a colour and a line that overwrites another.
    #[test]
    fn orders_to_the_terminal_are_shown_and_not_carried_out() {
        assert_eq!(
            align("NAME\tMESSAGE\nweb\t\u{1b}]0;x\u{7}\u{1b}[2J\rall is well\n", TABLE),
            "NAME   MESSAGE\nweb    ^[]0;x\u{7}^[[2J\\rall is well\n"
        );
        assert_eq!(align("Message:\t\u{1b}[31mred\n", DESCRIPTION), "Message:  ^[[31mred\n");
    }

    #[test]
    fn texts_without_tabs_stay() {
        for text in ["", "a\n", "a\n\nb\n", "no newline"] {
            assert_eq!(align(text, TABLE), text);
        }
    }
}
