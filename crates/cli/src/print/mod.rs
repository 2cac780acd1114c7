//! The forms of output: tables, YAML, JSON, names, JSONPath, columns and Go templates.

pub mod bar;
pub mod columns;
pub mod gotemplate;
pub mod json;
pub mod jsonpath;
pub mod neat;
pub mod sort;
pub mod table;
pub mod tabs;
pub mod time;
pub mod yaml;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::flags::OutputFlag;
use crate::output;
use columns::Columns;
use gotemplate::GoTemplate;
use jsonpath::Template;

/// How objects are shown.
#[derive(Debug, Clone)]
pub enum Form {
    /// As the server's table; `wide` with all columns.
    Table {
        wide: bool,
    },
    Json,
    Yaml,
    Name,
    JsonPath(Template),
    Columns(Columns),
    GoTemplate(GoTemplate),
}

const FORMS: &str = "json,yaml,name,wide,jsonpath=...,jsonpath-as-json=...,jsonpath-file=...,custom-columns=...,\
    custom-columns-file=...,go-template=...,go-template-file=...";

impl Form {
    pub fn parse(flag: &OutputFlag) -> Result<Form> {
        let text = match (&flag.output, &flag.template) {
            (None, None) => return Ok(Form::Table { wide: false }),
            (Some(form), Some(template)) if !form.contains('=') => format!("{form}={template}"),
            (Some(form), _) => form.clone(),
            (None, Some(template)) => format!("go-template={template}"),
        };
        let (name, argument) = text.split_once('=').unwrap_or((&text, ""));
        let needed = |argument: &str| match argument {
            "" => Err(Error::plain(format!(
                "template format specified but no template given: use -o {name}=..."
            ))),
            given => Ok(given.to_owned()),
        };
        let file = |argument: &str| {
            let path = needed(argument)?;
            std::fs::read_to_string(&path)
                .map_err(|error| Error::plain(format!("error reading --template {path}, {error}")))
        };
        let jsonpath = |text: String| {
            let wrong = |error| Error::plain(format!("error parsing jsonpath {text}, {error}"));
            Ok(Form::JsonPath(Template::parse(&text).map_err(wrong)?))
        };
        match name {
            "" => Ok(Form::Table { wide: false }),
            "wide" => Ok(Form::Table { wide: true }),
            "json" => Ok(Form::Json),
            "yaml" => Ok(Form::Yaml),
            "name" => Ok(Form::Name),
            "jsonpath" | "jsonpath-as-json" => jsonpath(needed(argument)?),
            "jsonpath-file" => jsonpath(file(argument)?),
            "custom-columns" => Ok(Form::Columns(Columns::parse(&needed(argument)?)?)),
            "custom-columns-file" => Ok(Form::Columns(Columns::parse_file(&file(argument)?)?)),
            "go-template" | "template" => Ok(Form::GoTemplate(GoTemplate::parse(&needed(argument)?)?)),
            "go-template-file" | "templatefile" => Ok(Form::GoTemplate(GoTemplate::parse(&file(argument)?)?)),
            _ => Err(Error::plain(format!(
                "unable to match a printer suitable for the output format {text:?}, allowed formats are: {FORMS}"
            ))),
        }
    }

    pub fn is_table(&self) -> bool {
        matches!(self, Form::Table { .. })
    }
}

/// What a command that changes objects prints about each: a line, or the object itself.
pub struct Report {
    form: Form,
    keep_managed_fields: bool,
    printed: std::cell::Cell<usize>,
}

impl Report {
    pub fn new(flag: &OutputFlag) -> Result<Report> {
        Ok(Report {
            form: Form::parse(flag)?,
            keep_managed_fields: flag.show_managed_fields,
            printed: 0.into(),
        })
    }

    /// `configmap/a created (dry run)`.
    pub fn done(&self, target: &str, verb: &str, suffix: &str, object: &Value) -> Result<()> {
        match &self.form {
            Form::Table { .. } => output::line(format_args!("{target} {verb}{suffix}")),
            Form::Name => output::line(target),
            form => {
                if matches!(form, Form::Yaml) && self.printed.get() > 0 {
                    output::line("---");
                }
                output::text(render(form, object, self.keep_managed_fields)?);
            }
        }
        self.printed.set(self.printed.get() + 1);
        Ok(())
    }
}

/// One object, or a `List`, in a form that is no table.
pub fn render(form: &Form, object: &Value, keep_managed_fields: bool) -> Result<String> {
    let tidy =
        |object: &Value| if keep_managed_fields { object.clone() } else { without_managed_fields(object) };
    match form {
        Form::Json => Ok(json::pretty(&tidy(object))),
        Form::Yaml => Ok(yaml::to_string(&tidy(object))),
        Form::JsonPath(template) => {
            let wrong = |error| Error::plain(format!("error executing jsonpath: {error}"));
            template.render(&tidy(object)).map_err(wrong)
        }
        Form::GoTemplate(template) => template.render(&tidy(object)),
        Form::Columns(columns) => columns.render(members(object), true),
        Form::Name | Form::Table { .. } => Ok(String::new()),
    }
}

/// The members of a list, or the object itself.
pub fn members(object: &Value) -> &[Value] {
    match object["items"]
        .as_array()
        .filter(|_| object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")))
    {
        Some(items) => items,
        None => std::slice::from_ref(object),
    }
}

/// Several objects as one, as kubectl prints them.
pub fn list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}})
}

pub fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    let forget = |object: &mut Value| {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.shift_remove("managedFields");
        }
    };
    if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
        && let Some(items) = object["items"].as_array_mut()
    {
        items.iter_mut().for_each(forget);
    }
    if object["metadata"].is_object() {
        forget(&mut object);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let parse =
            |text: &str| Form::parse(&OutputFlag { output: Some(text.into()), ..OutputFlag::default() });
        for good in
            ["", "json", "yaml", "name", "wide", "jsonpath={.a}", "custom-columns=A:.a", "go-template={{.a}}"]
        {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["xml", "jsonpath", "jsonpath={.a", "custom-columns="] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn managed_fields_go() {
        let object = json!({"kind": "List", "items": [{"metadata": {"managedFields": [], "name": "a"}}]});
        assert_eq!(
            without_managed_fields(&object),
            json!({"kind": "List", "items": [{"metadata": {"name": "a"}}]})
        );
    }
}
