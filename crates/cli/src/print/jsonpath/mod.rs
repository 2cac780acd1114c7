//! JSONPath in kubectl's dialect: templates with text around `{.path}`, `{range}` … `{end}`, filters, slices,
//! unions, recursive descent. Pure; a path to nothing prints nothing, as `kubectl get` has it.

mod evaluate;
mod parse;

use serde_json::Value;

use super::json;

/// A parsed template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Print(Path),
    Range(Path, Vec<Piece>),
}

/// A way from a value to some others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Path {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// `$`: begin again at the top.
    Root,
    Field(String),
    /// `[first:last:step]`; a plain `[n]` is a slice of one.
    Slice {
        first: Option<i64>,
        last: Option<i64>,
        step: i64,
        single: bool,
    },
    Wildcard,
    Recursive,
    Union(Vec<Path>),
    Filter(Box<Filter>),
}

#[derive(Debug, Clone, PartialEq)]
enum Filter {
    Exists(Operand),
    Compare(Operand, Operator, Operand),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(Path),
    Literal(Value),
}

impl Template {
    pub fn parse(text: &str) -> Result<Template, String> {
        parse::template(text)
    }

    /// The template filled in.
    pub fn render(&self, value: &Value) -> Result<String, String> {
        let mut out = String::new();
        evaluate::render(&self.pieces, value, value, &mut out)?;
        Ok(out)
    }
}

impl Path {
    /// What flags take: `{.metadata.name}`, `.metadata.name` or `metadata.name`.
    pub fn parse_relaxed(text: &str) -> Result<Path, String> {
        let inner =
            text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text.trim());
        let dotted = if inner.starts_with(['.', '[', '$']) { inner.to_owned() } else { format!(".{inner}") };
        parse::path(&dotted)
    }

    /// Everything it leads to.
    pub fn find<'v>(&self, value: &'v Value) -> Result<Vec<&'v Value>, String> {
        evaluate::find(self, value, value)
    }
}

/// One value as text: strings bare, the rest as JSON.
pub fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => json::compact(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &str, expected: &str) {
        let value = json!({
            "kind": "List",
            "items": [
                {"metadata": {"name": "a", "labels": {"app.io/x": "1"}}, "size": 1, "ready": true, "tags": ["p", "q", "r"]},
                {"metadata": {"name": "b"}, "size": 20, "ready": false, "tags": []},
                {"metadata": {"name": "c"}, "size": 3},
            ],
        });
        let rendered = Template::parse(template).and_then(|template| template.render(&value));
        assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
    }

    #[test]
    fn paths() {
        check("{.kind}", "List");
        check("{$.kind}", "List");
        check("{.items[0].metadata.name}", "a");
        check("{.items[-1].metadata.name}", "c");
        check("{.items[*].metadata.name}", "a b c");
        check("{.items[1:3].metadata.name}", "b c");
        check("{.items[:2].metadata.name}", "a b");
        check("{.items[0].tags}", r#"["p","q","r"]"#);
        check("{.items[0].tags[0,2]}", "p r");
        check("{.items[0]['metadata.name','size']}", "a 1");
        check("{.items[0].metadata.labels.app\\.io/x}", "1");
        check("{.items[0].metadata['labels']['app\\.io/x']}", "1");
        check("{.items[0].metadata.labels}", r#"{"app.io/x":"1"}"#);
        check("{..name}", "a b c");
        check("{.nothing.at.all}", "");
        check("{.items[9].metadata}", "");
    }

    #[test]
    fn text_and_ranges() {
        check("names: {.items[*].size}!", "names: 1 20 3!");
        check("{range .items[*]}{.metadata.name}={.size}{\"\\n\"}{end}", "a=1\nb=20\nc=3\n");
        check("{range .items[0].tags[*]}<{@}>{end}", "<p><q><r>");
        check("{range .items[*]}{range .tags[*]}{@}{','}{end}{end}", "p,q,r,");
    }

    #[test]
    fn filters() {
        check("{.items[?(@.metadata.name==\"b\")].size}", "20");
        check("{.items[?(@.size>2)].metadata.name}", "b c");
        check("{.items[?(@.size<=3)].metadata.name}", "a c");
        check("{.items[?(@.ready)].metadata.name}", "a b");
        check("{.items[?(@.ready==true)].metadata.name}", "a");
        check("{.items[?(@.metadata.name!='a')].metadata.name}", "b c");
        check("{range .items[?(@.size==20)]}{.metadata.name}{end}", "b");
    }

    #[test]
    fn mistakes() {
        for template in ["{.a", "{range .a}", "{end}", "{.a[}", "{.a[?(@.b}", "{\"x}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }

    #[test]
    fn relaxed() {
        for text in ["{.metadata.name}", ".metadata.name", "metadata.name"] {
            let path = Path::parse_relaxed(text).unwrap();
            assert_eq!(path.find(&json!({"metadata": {"name": "x"}})), Ok(vec![&json!("x")]), "{text}");
        }
    }
}
