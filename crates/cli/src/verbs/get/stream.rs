//! `get --watch`.

use serde_json::{Value, json};

use super::{Get, kind_of};
use crate::client::{AS_TABLE, Call};
use crate::error::{Error, Result};
use crate::output;
use crate::print::table::{Column, Style, Table};
use crate::print::{self, Form};
use crate::select::{self, Want};
use crate::session::Session;
use crate::watch;

pub async fn run(session: &Session, verb: &Get, form: &Form) -> Result<()> {
    let wants = verb.wants(session).await?;
    let [want] = wants.as_slice() else {
        return Err(Error::plain("you may only specify a single resource type"));
    };
    let mut printer = Printer::new(verb, form, want);
    let call = call(session, verb, want, form.is_table()).await?;
    let client = session.client().await?;
    let first = client.send(call.clone()).await?;
    if !verb.watch_only {
        let initial: Vec<Value> =
            if form.is_table() { vec![first.clone()] } else { print::members(&first).to_vec() };
        for object in initial {
            printer.show("ADDED", select::with_kind(object, kind_of(want)))?;
        }
    }
    let version = first["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut watch = watch::open(client, call.query("resourceVersion", version)).await?;
    while let Some(event) = watch.next().await? {
        if event.kind != "BOOKMARK" {
            printer.show(&event.kind, event.object)?;
        }
    }
    Ok(())
}

/// A list of one object can be watched, an object cannot.
async fn call(session: &Session, verb: &Get, want: &Want, as_table: bool) -> Result<Call> {
    let namespace = session.namespace().await?;
    let call = match want {
        Want::List { kind } => {
            let namespace = (!verb.all_namespaces).then_some(namespace);
            Call::get(kind.path(namespace, None))
                .maybe("labelSelector", verb.targets.selectors.selector.as_deref())
                .maybe("fieldSelector", verb.targets.selectors.field_selector.as_deref())
        }
        Want::Object { kind, name } => Call::get(kind.path(Some(namespace), None))
            .query("fieldSelector", format!("metadata.name={name}")),
    };
    Ok(if as_table { call.accept(AS_TABLE) } else { call })
}

struct Printer<'a> {
    verb: &'a Get,
    form: &'a Form,
    style: Style,
    name: String,
    /// Columns stay as wide as they once were.
    widths: Vec<usize>,
    columns: Vec<Column>,
    shown: usize,
}

impl<'a> Printer<'a> {
    fn new(verb: &'a Get, form: &'a Form, want: &Want) -> Self {
        let kind = kind_of(want);
        let mut style = verb.style(matches!(form, Form::Table { wide: true }), Some(kind));
        style.kind = verb.show_kind.then(|| kind.qualified());
        Printer {
            verb,
            form,
            style,
            name: kind.qualified(),
            widths: Vec::new(),
            columns: Vec::new(),
            shown: 0,
        }
    }

    fn show(&mut self, event: &str, object: Value) -> Result<()> {
        match self.form {
            Form::Table { .. } => self.rows(event, &object),
            Form::Name => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                output::line(format_args!("{}/{name}", self.name));
            }
            Form::Columns(columns) => {
                let headers = self.shown == 0 && !self.verb.no_headers;
                output::text(columns.render(&[object], headers)?);
            }
            form => {
                let tidy = print::without_managed_fields(&object);
                let shown =
                    if self.verb.output_watch_events { json!({"type": event, "object": tidy}) } else { tidy };
                if matches!(form, Form::Yaml) && self.shown > 0 {
                    output::line("---");
                }
                output::text(print::render(form, &shown, false)?);
            }
        }
        self.shown += 1;
        Ok(())
    }

    fn rows(&mut self, event: &str, object: &Value) {
        let mut table = Table::new(object);
        // The server names the columns only in the first answer.
        if table.columns.is_empty() {
            table.columns = self.columns.clone();
        } else {
            self.columns = table.columns.clone();
        }
        if table.rows.is_empty() {
            return;
        }
        let mut style = self.style.clone();
        style.no_headers |= !self.widths.is_empty();
        let mut lines = Vec::new();
        for (i, line) in table.lines(&style).lines().enumerate() {
            let heading = i == 0 && !style.no_headers;
            let line = match (self.verb.output_watch_events, heading) {
                (true, true) => format!("EVENT\t{line}"),
                (true, false) => format!("{event}\t{line}"),
                (false, _) => line.to_owned(),
            };
            self.widen(&line);
            lines.push(line);
        }
        for line in lines {
            output::line(self.padded(&line));
        }
    }

    fn widen(&mut self, line: &str) {
        for (i, cell) in line.split('\t').enumerate() {
            let width = (cell.chars().count() + 3).max(6);
            match self.widths.get_mut(i) {
                Some(known) => *known = width.max(*known),
                None => self.widths.push(width),
            }
        }
    }

    fn padded(&self, line: &str) -> String {
        let cells: Vec<&str> = line.split('\t').collect();
        let mut text = String::new();
        for (i, cell) in cells.iter().enumerate() {
            text.push_str(cell);
            if i + 1 < cells.len() {
                text.extend(std::iter::repeat_n(' ', self.widths[i].saturating_sub(cell.chars().count())));
            }
        }
        text
    }
}
