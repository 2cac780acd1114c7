//! Templates of labels and annotations, as far as it takes to say that Prometheus will read them: actions that end, words
//! that are known, blocks that are closed. It never evaluates one.

/// Functions of Prometheus' templates and of Go's.
const FUNCTIONS: &[&str] = &[
    "and",
    "args",
    "call",
    "eq",
    "externalURL",
    "first",
    "ge",
    "graphLink",
    "gt",
    "html",
    "humanize",
    "humanize1024",
    "humanizeDuration",
    "humanizePercentage",
    "humanizeTimestamp",
    "index",
    "js",
    "label",
    "le",
    "len",
    "lt",
    "match",
    "ne",
    "not",
    "or",
    "parseDuration",
    "pathPrefix",
    "print",
    "printf",
    "println",
    "query",
    "reReplaceAll",
    "safeHtml",
    "slice",
    "sortByLabel",
    "stripDomain",
    "stripPort",
    "strvalue",
    "tableLink",
    "title",
    "toDuration",
    "toLower",
    "toTime",
    "toUpper",
    "urlquery",
    "value",
];
const WORDS: &[&str] = &["else", "end", "nil", "true", "false", "break", "continue", "template"];
const BLOCKS: &[&str] = &["if", "range", "with", "define", "block"];
const VARIABLES: &[&str] = &["labels", "externalLabels", "externalURL", "value"];

pub fn check(text: &str) -> Result<(), String> {
    let (mut rest, mut open) = (text, 0usize);
    let mut declared: Vec<String> = Vec::new();
    while let Some(start) = rest.find("{{") {
        rest = &rest[start + 2..];
        if let Some(comment) = rest.trim_start_matches('-').trim_start().strip_prefix("/*") {
            let end = comment.find("*/").ok_or("unclosed comment")?;
            rest = comment[end..].split_once("}}").ok_or("unclosed comment")?.1;
            continue;
        }
        let (action, after) = action(rest)?;
        rest = after;
        let words = words(action)?;
        let first = words.first().map(String::as_str).ok_or("missing value for command")?;
        if BLOCKS.contains(&first) {
            open += 1;
        }
        if first == "end" {
            open = open.checked_sub(1).ok_or("unexpected {{end}}")?;
        }
        if first == "else" && open == 0 {
            return Err("unexpected {{else}}".to_owned());
        }
        for (at, word) in words.iter().enumerate() {
            if let Some(name) = word.strip_prefix('$') {
                let is_declared = words.get(at + 1).is_some_and(|next| next == ":=" || next == ",");
                if is_declared {
                    declared.push(name.to_owned());
                } else if !name.is_empty()
                    && !VARIABLES.contains(&name)
                    && !declared.iter().any(|one| one == name)
                {
                    return Err(format!("undefined variable \"${name}\""));
                }
            } else if word.starts_with(|c: char| c.is_ascii_alphabetic())
                && ![FUNCTIONS, WORDS, BLOCKS].iter().any(|known| known.contains(&word.as_str()))
            {
                return Err(format!("function {word:?} not defined"));
            }
        }
    }
    match open {
        0 => Ok(()),
        _ => Err("unexpected EOF: a block has no {{end}}".to_owned()),
    }
}

/// Up to its end, which is not within a string, and what follows.
fn action(text: &str) -> Result<(&str, &str), String> {
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '"' | '`' | '\'') => quote = Some(character),
            (None, '}') if text[at..].starts_with("}}") => return Ok((&text[..at], &text[at + 2..])),
            _ => {}
        }
    }
    Err(if quote.is_some() { "unterminated quoted string" } else { "unclosed action" }.to_owned())
}

/// Names, variables without their fields, and signs. Strings and fields are nothing to check.
fn words(action: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = action.trim_matches('-').trim();
    let mut depth = 0i32;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '`' | '\'' => {
                words.push("\"".to_owned());
                let mut escaped = false;
                let end = rest[1..].find(|c: char| {
                    let closes = c == first && !escaped;
                    escaped = c == '\\' && !escaped && first == '"';
                    closes
                });
                end.ok_or("unterminated quoted string")? + 2
            }
            '(' | ')' => {
                depth += if first == '(' { 1 } else { -1 };
                if depth < 0 {
                    return Err("unexpected right paren".to_owned());
                }
                1
            }
            ':' if rest.starts_with(":=") => {
                words.push(":=".to_owned());
                2
            }
            '$' | '.' | '_' => name(rest, first, &mut words),
            c if c.is_ascii_alphanumeric() => name(rest, first, &mut words),
            c => {
                if !c.is_whitespace() {
                    words.push(c.to_string());
                }
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    match depth {
        0 => Ok(words),
        _ => Err("unclosed left paren".to_owned()),
    }
}

/// A name with its fields: only what is before the first dot counts.
fn name(rest: &str, first: char, words: &mut Vec<String>) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$');
    let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
    let word = rest[..length].split('.').next().unwrap_or_default();
    words.push(if first == '.' { ".".to_owned() } else { word.to_owned() });
    length
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn templates_are_read_as_prometheus_reads_them() {
        for good in [
            "plain",
            "{{ $labels.instance }} of {{ $value | humanize }}",
            "{{ $value | printf \"%.2f\" }}",
            "{{ with query \"up{job='a'}\" }}{{ . | first | value | humanizePercentage }}{{ end }}",
            "{{ if eq $labels.a \"b\" }}x{{ else }}y{{ end }}",
            "{{ range $i, $r := query \"up\" }}{{ $i }}{{ $r.Value }}{{ end }}",
            "{{- $labels.a -}}",
            "{{/* a }} comment */}}",
            "{{ printf \"}}\" }}",
            "{{ (index $labels \"a\") }} {{ .Labels.x }} {{ $externalURL }}",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, expected) in [
            ("{{ $labels.a", "unclosed action"),
            ("{{ \"a }}", "unterminated quoted string"),
            ("{{ }}", "missing value"),
            ("{{ humanise $value }}", "function \"humanise\" not defined"),
            ("{{ $label.a }}", "undefined variable \"$label\""),
            ("{{ if true }}x", "no {{end}}"),
            ("{{ end }}", "unexpected {{end}}"),
            ("{{ else }}", "unexpected {{else}}"),
            ("{{ (len \"a\" }}", "unclosed left paren"),
            ("{{ len) }}", "unexpected right paren"),
        ] {
            let found = check(bad).unwrap_err();
            assert!(found.contains(expected), "{bad}: {found}");
        }
    }
}
