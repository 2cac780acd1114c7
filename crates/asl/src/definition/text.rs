//! A definition's text: reading it with the messages of AWS' JSON parser (Jackson), and finding lines again.

use serde_json::Value;

use super::Diagnostic;

pub(super) fn parse(text: &str) -> Result<Value, Diagnostic> {
    serde_json::from_str(text).map_err(|error| problem(text, &error))
}

fn problem(text: &str, error: &serde_json::Error) -> Diagnostic {
    let source =
        |line: usize, column: usize| format!("[Source: (String)\"{text}\"; line: {line}, column: {column}]");
    let (line, column) = (error.line().max(1), error.column().max(1));
    let offset = offset_of(text, line, column.saturating_sub(1));
    let word: String =
        text[word_start(text, offset)..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let (what, location) = if !word.is_empty()
        && !error.is_eof()
        && !word.starts_with(|c: char| c.is_ascii_digit())
    {
        let start = word_start(text, offset);
        let (line, column) = line_and_column(text, start + word.len());
        (
            format!(
                "Unrecognized token '{word}': was expecting (JSON String, Number, Array, Object or token 'null', \
                 'true' or 'false')"
            ),
            source(line, column),
        )
    } else if error.is_eof() {
        let (line, column) = line_and_column(text, text.len());
        ("Unexpected end-of-input".to_owned(), source(line, column))
    } else {
        let character = text[offset..].chars().next().unwrap_or(' ');
        (
            format!("Unexpected character ('{character}' (code {})): {error}", u32::from(character)),
            source(line, column),
        )
    };
    Diagnostic::error("INVALID_JSON_DESCRIPTION", &location, format!("{what}\n at {location}"))
}

fn word_start(text: &str, offset: usize) -> usize {
    text[..offset]
        .char_indices()
        .rev()
        .take_while(|(_, c)| c.is_alphanumeric() || *c == '_')
        .last()
        .map_or(offset, |(at, _)| at)
}

fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let start = text.split_inclusive('\n').take(line - 1).map(str::len).sum::<usize>();
    let mut offset = (start + column).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

/// Both count from one.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

/// The line and column where the value at a JSON pointer begins, for editors and error messages.
pub fn position_of(text: &str, pointer: &str) -> Option<(usize, usize)> {
    let mut finder = Finder { text: text.as_bytes(), at: 0 };
    let steps: Vec<String> = pointer
        .split('/')
        .skip(1)
        .filter(|step| !step.is_empty())
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
        .collect();
    finder.space();
    for step in &steps {
        finder.enter(step)?;
    }
    text.is_char_boundary(finder.at).then(|| line_and_column(text, finder.at))
}

/// Walks JSON text that is known to be well formed.
struct Finder<'a> {
    text: &'a [u8],
    at: usize,
}

impl Finder<'_> {
    fn space(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn enter(&mut self, step: &str) -> Option<()> {
        let open = *self.text.get(self.at)?;
        self.at += 1;
        let mut index = 0usize;
        loop {
            self.space();
            let found = match open {
                b'{' => {
                    let start = self.at;
                    self.skip()?;
                    let key: String = serde_json::from_slice(&self.text[start..self.at]).ok()?;
                    self.space();
                    self.at += 1;
                    self.space();
                    key == step
                }
                b'[' => step.parse() == Ok(index),
                _ => return None,
            };
            if found {
                return Some(());
            }
            self.skip()?;
            self.space();
            if *self.text.get(self.at)? != b',' {
                return None;
            }
            self.at += 1;
            index += 1;
        }
    }

    /// Past the value that begins here.
    fn skip(&mut self) -> Option<()> {
        let (mut depth, mut quoted) = (0usize, false);
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b'\\' if quoted => self.at += 1,
                b'"' => {
                    quoted = !quoted;
                    if !quoted && depth == 0 {
                        self.at += 1;
                        return Some(());
                    }
                }
                _ if quoted => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => return Some(()),
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Some(());
                    }
                }
                b',' if depth == 0 => return Some(()),
                _ => {}
            }
            self.at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_found_by_pointer() {
        let text = "{\n  \"StartAt\": \"a\",\n  \"States\": {\"a\": {\"Choices\": [1,\n {\"x\": 2}]}}\n}";
        for (pointer, expected) in [
            ("/", Some((1, 1))),
            ("/StartAt", Some((2, 14))),
            ("/States/a/Choices/0", Some((3, 32))),
            ("/States/a/Choices/1/x", Some((4, 8))),
            ("/States/b", None),
            ("/StartAt/x", None),
        ] {
            assert_eq!(position_of(text, pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn text_that_is_no_json_is_located_as_jackson_does() {
        let problem = parse("not a definition").unwrap_err();
        assert_eq!(problem.location, "[Source: (String)\"not a definition\"; line: 1, column: 4]");
        for text in ["", "{", "{\"a\":}", "[1,", "{\"a\" 1}", "tru", "\u{e9}", "{\"\u{e9}\": x"] {
            assert_eq!(parse(text).unwrap_err().code, "INVALID_JSON_DESCRIPTION", "{text}");
        }
    }
}
