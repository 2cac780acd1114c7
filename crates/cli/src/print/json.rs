//! JSON as kubectl prints it: four blanks, keys in order, `<`, `>` and `&` escaped.

use serde_json::Value;

/// One object over several lines, with a newline at its end.
pub fn pretty(value: &Value) -> String {
    let mut out = String::new();
    write(value, Some(0), &mut out);
    out.push('\n');
    out
}

/// On one line.
pub fn compact(value: &Value) -> String {
    let mut out = String::new();
    write(value, None, &mut out);
    out
}

/// Numbers, booleans and null as they stand.
pub fn number(value: &Value) -> String {
    value.to_string()
}

fn write(value: &Value, depth: Option<usize>, out: &mut String) {
    let deeper = depth.map(|depth| depth + 1);
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                separate(i, deeper, out);
                string(key, out);
                out.push_str(if depth.is_some() { ": " } else { ":" });
                write(&map[key], deeper, out);
            }
            line(depth, out);
            out.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                separate(i, deeper, out);
                write(item, deeper, out);
            }
            line(depth, out);
            out.push(']');
        }
        Value::String(text) => string(text, out),
        leaf => out.push_str(&leaf.to_string()),
    }
}

fn separate(i: usize, depth: Option<usize>, out: &mut String) {
    if i > 0 {
        out.push(',');
    }
    line(depth, out);
}

fn line(depth: Option<usize>, out: &mut String) {
    if let Some(depth) = depth {
        out.push('\n');
        out.push_str(&"    ".repeat(depth));
    }
}

fn string(text: &str, out: &mut String) {
    for c in Value::String(text.to_owned()).to_string().chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms() {
        let value = json!({"b": [1, {"x": "<a>"}], "a": {}, "c": []});
        assert_eq!(compact(&value), r#"{"a":{},"b":[1,{"x":"\u003ca\u003e"}],"c":[]}"#);
        assert_eq!(
            pretty(&value),
            "{\n    \"a\": {},\n    \"b\": [\n        1,\n        {\n            \"x\": \"\\u003ca\\u003e\"\n        }\n    ],\n    \"c\": []\n}\n"
        );
    }
}
