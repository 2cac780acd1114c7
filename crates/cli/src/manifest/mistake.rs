//! A mistake in a manifest, shown where it stands: file, line, column, the line itself and a caret.

use std::fmt::Write;

use serde_json::Value;

use super::yaml::{Place, YamlError};
use super::{Item, Written};
use crate::error::{Error, ServerError};

/// What the parser could not read.
pub fn syntax(source: &str, text: &str, error: &YamlError) -> Error {
    let place = Place { line: error.line, column: error.column };
    let shown = show(source, text, place, &error.message);
    Error::plain(format!(
        "error parsing {source}: error converting YAML to JSON: yaml: line {}: {}\n{shown}",
        error.line, error.message
    ))
}

/// A name that YAML takes for a boolean or a number: without it, the object would have no name.
pub fn unquoted_name(item: &Item) -> Option<String> {
    let name = &item.object["metadata"]["name"];
    let what = match name {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        _ => return None,
    };
    let told = format!("metadata.name is the {what} {name} and must be text: put it in quotes");
    let written = item.places.as_ref();
    let shown = written.and_then(|written| {
        let place = nearest_place(written, "metadata.name")?;
        Some(show(&item.source, &written.text, place, "must be in quotes"))
    });
    Some(format!("{told}\n{}", shown.unwrap_or_default()).trim_end().to_owned())
}

/// Where the fields stand that the server refused. Empty if nothing can be shown.
pub fn of_fields(item: &Item, error: &ServerError) -> String {
    let Some(written) = &item.places else { return String::new() };
    let mut text = String::new();
    for (field, what) in refused(error) {
        if let Some(place) = nearest_place(written, &field) {
            let what = match suggestion(written, &field, &error.message) {
                Some(better) => format!("{what}; did you mean {better:?}?"),
                None => what,
            };
            text.push_str(&show(&item.source, &written.text, place, &what));
        }
    }
    text
}

/// Paths of the refused fields, with what is wrong with each.
fn refused(error: &ServerError) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in error.message.split("unknown field \"").skip(1) {
        if let Some((field, _)) = part.split_once('"') {
            found.push((field.to_owned(), "unknown field".to_owned()));
        }
    }
    // Server-side apply: `.spec.replicass: field not declared in schema`.
    for (before, _) in error.message.match_indices(": field not declared in schema") {
        let start = error.message[..before].rfind(' ').map_or(0, |space| space + 1);
        let field = error.message[start..before].trim_start_matches('.');
        found.push((field.to_owned(), "field not declared in schema".to_owned()));
    }
    if error.reason == "Invalid" {
        found.extend(error.causes.iter().filter(|(field, _)| !field.is_empty()).cloned());
    }
    found.dedup();
    found
}

/// The server of minik8s names the nearest field itself: `did you mean "spec.replicas"?`.
fn suggestion(written: &Written, field: &str, message: &str) -> Option<String> {
    let after = message.split_once(&format!("unknown field {field:?}")).map(|(_, after)| after)?;
    let own = after.split("unknown field").next()?;
    if let Some(better) = own.split_once("did you mean \"").and_then(|(_, rest)| rest.split_once('"')) {
        return better.0.rsplit('.').next().map(str::to_owned);
    }
    known_neighbour(written, field)
}

/// Without a hint of the server, what is right elsewhere in the same manifest is the best guess.
fn known_neighbour(written: &Written, field: &str) -> Option<String> {
    let name = field.rsplit('.').next()?;
    let names = written.document.places.keys().filter_map(|path| path.rsplit('.').next());
    let close = names.filter(|other| *other != name && strsim::damerau_levenshtein(other, name) == 1);
    close.map(str::to_owned).next()
}

/// The place of a field, or of the nearest one above it: what is missing has no place of its own.
fn nearest_place(written: &Written, field: &str) -> Option<Place> {
    let mut path = field;
    loop {
        if let Some(place) = written.document.places.get(path) {
            return Some(*place);
        }
        path = &path[..path.rfind(['.', '['])?];
    }
}

fn show(source: &str, text: &str, place: Place, what: &str) -> String {
    let mut shown = String::new();
    let margin = " ".repeat(place.line.to_string().len());
    let _ = writeln!(shown, "{margin}--> {source}:{}:{}", place.line, place.column);
    let Some(line) = text.lines().nth(place.line.saturating_sub(1)) else { return shown };
    let before = line.chars().take(place.column.saturating_sub(1));
    let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let word = line.chars().skip(place.column.saturating_sub(1));
    let width = word.take_while(|c| c.is_alphanumeric() || "_-.\"'".contains(*c)).count().max(1);
    let _ = writeln!(shown, "{margin} |");
    let _ = writeln!(shown, "{} | {line}", place.line);
    let _ = writeln!(shown, "{margin} | {indent}{} {what}", "^".repeat(width));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::parse;

    const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicass: 3\n  template:\n    spec:\n      containers:\n      - name: a\n        imagee: x\n";

    fn error(reason: &str, message: &str, causes: &[(&str, &str)]) -> ServerError {
        let causes = causes.iter().map(|(field, message)| (field.to_string(), message.to_string())).collect();
        ServerError { reason: reason.into(), message: message.into(), causes, ..ServerError::default() }
    }

    #[test]
    fn unknown_fields_are_pointed_at() {
        let item = parse("app.yaml", DEPLOYMENT).unwrap().remove(0);
        let message = "strict decoding error: unknown field \"spec.replicass\", did you mean \"spec.replicas\"?, unknown field \"spec.template.spec.containers[0].imagee\"";
        assert_eq!(
            of_fields(&item, &error("BadRequest", message, &[])),
            " --> app.yaml:4:3\n  |\n4 |   replicass: 3\n  |   ^^^^^^^^^ unknown field; did you mean \"replicas\"?\n \
             --> app.yaml:9:9\n  |\n9 |         imagee: x\n  |         ^^^^^^ unknown field\n",
        );
    }

    #[test]
    fn undeclared_fields_of_an_apply_are_pointed_at() {
        let item = parse("app.yaml", DEPLOYMENT).unwrap().remove(0);
        let message = "failed to create typed patch object (/; apps/v1, Kind=Deployment): errors:\n  \
            .spec.replicass: field not declared in schema\n  .spec.x: field not declared in schema";
        let told = of_fields(&item, &error("", message, &[]));
        assert!(
            told.starts_with(
                " --> app.yaml:4:3\n  |\n4 |   replicass: 3\n  |   ^^^^^^^^^ field not declared in schema\n"
            ),
            "{told}"
        );
    }

    #[test]
    fn unquoted_name_is_told_to_be_quoted() {
        for (name, what) in [("y", "the boolean true"), ("No", "the boolean false"), ("007", "the number 7")]
        {
            let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
            let told = parse("map.yaml", &text).unwrap_err().to_string();
            assert!(told.contains(&format!("metadata.name is {what} and must be text")), "{told}");
            assert!(told.contains(&format!("--> map.yaml:4:3\n  |\n4 |   name: {name}\n")), "{told}");
        }
        assert!(parse("map.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: 'y'}\n").is_ok());
    }

    #[test]
    fn missing_fields_are_shown_at_their_parent() {
        let item = parse("app.yaml", DEPLOYMENT).unwrap().remove(0);
        let causes = [("spec.template.spec.containers[0].image", "Required value")];
        assert_eq!(
            of_fields(&item, &error("Invalid", "", &causes)),
            " --> app.yaml:8:9\n  |\n8 |       - name: a\n  |         ^^^^ Required value\n",
        );
    }

    #[test]
    fn syntax_errors_have_a_caret() {
        let told = parse("bad.yaml", "a: 1\nb: [1, 2\nc: 3\n").unwrap_err().to_string();
        assert!(
            told.starts_with("error: error parsing bad.yaml: error converting YAML to JSON: yaml: line"),
            "{told}"
        );
        assert!(told.contains("--> bad.yaml:") && told.contains('^'), "{told}");
    }
}
