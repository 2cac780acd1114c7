//! `-o go-template=...`: the part of Go's templates that people write for kubectl: fields, pipelines, `if`,
//! `range`, `with`, variables, comparisons, `printf`, `index`, `len`, and kubectl's `base64decode` and
//! `exists`. No definitions of templates within templates.

mod functions;
mod parse;

use serde_json::Value;

use super::columns::go_value;
use crate::error::Error;

type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Clone, PartialEq)]
pub struct GoTemplate {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    Print(Pipe),
    Set(String, Pipe),
    If(Vec<(Pipe, Vec<Node>)>, Vec<Node>),
    With(Pipe, Vec<Node>, Vec<Node>),
    Range { names: Vec<String>, over: Pipe, body: Vec<Node>, otherwise: Vec<Node> },
}

/// Commands, each of which gets the result of the one before as its last argument.
type Pipe = Vec<Vec<Operand>>;

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// `.a.b`; without names the value itself.
    Dot(Vec<String>),
    /// `$x.a.b`; `$` alone has an empty name.
    Variable(String, Vec<String>),
    Literal(Value),
    Function(String),
    Group(Pipe),
}

impl GoTemplate {
    pub fn parse(text: &str) -> Result<GoTemplate> {
        let nodes = parse::nodes(text)
            .map_err(|error| Error::plain(format!("error parsing template {text}, {error}")))?;
        Ok(GoTemplate { nodes })
    }

    pub fn render(&self, value: &Value) -> Result<String> {
        let mut scope = Scope { variables: vec![(String::new(), value.clone())], out: String::new() };
        scope
            .nodes(&self.nodes, value)
            .map_err(|error| Error::plain(format!("error executing template: {error}")))?;
        Ok(scope.out)
    }
}

struct Scope {
    /// Inner ones hide outer ones.
    variables: Vec<(String, Value)>,
    out: String,
}

impl Scope {
    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Result<(), String> {
        let outside = self.variables.len();
        for node in nodes {
            self.node(node, dot)?;
        }
        self.variables.truncate(outside);
        Ok(())
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<(), String> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Print(pipe) => {
                let text = match self.pipe(pipe, dot)? {
                    None => "<no value>".to_owned(),
                    Some(value) => go_value(&value),
                };
                self.out.push_str(&text);
            }
            Node::Set(name, pipe) => {
                let value = self.pipe(pipe, dot)?.unwrap_or_default();
                self.variables.push((name.clone(), value));
            }
            Node::If(branches, otherwise) => {
                for (condition, body) in branches {
                    if is_true(self.pipe(condition, dot)?.as_ref()) {
                        return self.nodes(body, dot);
                    }
                }
                self.nodes(otherwise, dot)?;
            }
            Node::With(pipe, body, otherwise) => match self.pipe(pipe, dot)? {
                Some(value) if is_true(Some(&value)) => self.nodes(body, &value)?,
                _ => self.nodes(otherwise, dot)?,
            },
            Node::Range { names, over, body, otherwise } => {
                let items = entries(self.pipe(over, dot)?)?;
                if items.is_empty() {
                    return self.nodes(otherwise, dot);
                }
                for (key, item) in items {
                    let outside = self.variables.len();
                    match names.as_slice() {
                        [] => {}
                        [one] => self.variables.push((one.clone(), item.clone())),
                        [index, one, ..] => {
                            self.variables.push((index.clone(), key));
                            self.variables.push((one.clone(), item.clone()));
                        }
                    }
                    self.nodes(body, &item)?;
                    self.variables.truncate(outside);
                }
            }
        }
        Ok(())
    }

    /// None: nothing is there.
    fn pipe(&self, pipe: &Pipe, dot: &Value) -> Result<Option<Value>, String> {
        let mut last: Option<Option<Value>> = None;
        for command in pipe {
            last = Some(self.command(command, last, dot)?);
        }
        Ok(last.flatten())
    }

    fn command(
        &self,
        command: &[Operand],
        piped: Option<Option<Value>>,
        dot: &Value,
    ) -> Result<Option<Value>, String> {
        let Some((first, rest)) = command.split_first() else { return Ok(piped.flatten()) };
        let Operand::Function(name) = first else {
            return if rest.is_empty() && piped.is_none() {
                self.operand(first, dot)
            } else {
                Err("only functions take arguments".to_owned())
            };
        };
        let mut arguments: Vec<Option<Value>> =
            rest.iter().map(|operand| self.operand(operand, dot)).collect::<Result<_, _>>()?;
        arguments.extend(piped);
        functions::call(name, &arguments)
    }

    fn operand(&self, operand: &Operand, dot: &Value) -> Result<Option<Value>, String> {
        let walk = |start: &Value, names: &[String]| {
            names
                .iter()
                .try_fold(start, |value, name| value.get(name))
                .filter(|value| !value.is_null())
                .cloned()
        };
        match operand {
            Operand::Dot(names) => Ok(walk(dot, names)),
            Operand::Literal(value) => Ok(Some(value.clone())),
            Operand::Variable(name, names) => {
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                let (_, value) = found.ok_or_else(|| format!("undefined variable \"${name}\""))?;
                Ok(walk(value, names))
            }
            Operand::Function(name) => functions::call(name, &[]),
            Operand::Group(pipe) => self.pipe(pipe, dot),
        }
    }
}

fn entries(value: Option<Value>) -> Result<Vec<(Value, Value)>, String> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            Ok(items.into_iter().enumerate().map(|(i, item)| (i.into(), item)).collect())
        }
        Some(Value::Object(map)) => {
            let mut pairs: Vec<(String, Value)> = map.into_iter().collect();
            pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
            Ok(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
        }
        Some(other) => Err(format!("range can't iterate over {}", go_value(&other))),
    }
}

fn is_true(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(value)) => *value,
        Some(Value::Number(value)) => value.as_f64() != Some(0.0),
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &str, expected: &str) {
        let value = json!({"kind": "List", "count": 2, "data": {"a": "aGk=", "b": "2"}, "items": [{"name": "x", "ok": true}, {"name": "y"}]});
        let rendered = GoTemplate::parse(template).and_then(|template| template.render(&value));
        assert_eq!(rendered.unwrap_or_else(|error| error.to_string()), expected, "{template}");
    }

    #[test]
    fn fields_and_functions() {
        check("{{.data.b}}", "2");
        check("{{ .data.b -}}  !", "2!");
        check("{{.nothing.here}}", "<no value>");
        check("{{.data.a | base64decode}}", "hi");
        check("{{index .data \"b\"}} {{(index .items 1).name}}", "2 y");
        check("{{len .items}} {{printf \"%s-%v\" .kind .count}}", "2 List-2");
        check("{{.data}}", "map[a:aGk= b:2]");
        check("{{/* said */}}{{\"q\\n\"}}", "q\n");
    }

    #[test]
    fn control() {
        check("{{range .items}}{{.name}}{{if .ok}}+{{else}}-{{end}} {{end}}", "x+ y- ");
        check("{{range $i, $v := .items}}{{$i}}={{$v.name}};{{end}}", "0=x;1=y;");
        check("{{range $k, $v := .data}}{{$k}} {{end}}", "a b ");
        check("{{with .data}}{{.b}}{{end}}{{with .none}}x{{else}}nothing{{end}}", "2nothing");
        check("{{$x := .kind}}{{if eq $x \"Pod\"}}p{{else if eq .count 2}}two{{end}}", "two");
        check("{{if and (eq .kind \"List\") (not .none)}}both{{end}}", "both");
        check("{{range .none}}x{{else}}empty{{end}}", "empty");
    }

    #[test]
    fn mistakes() {
        for template in ["{{", "{{if .a}}", "{{end}}", "{{.a}", "{{nonsense .a}}"] {
            let parsed = GoTemplate::parse(template);
            assert!(parsed.and_then(|template| template.render(&json!({}))).is_err(), "{template}");
        }
    }
}
