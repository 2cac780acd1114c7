//! The state as lines of a terminal. Only what is in sight is laid out, so that thousands of rows cost as much as twenty.

use jiff::Timestamp;

use super::app::{App, Mode, Text};
use super::screen::{BOLD, Colour, FAINT, Line, PLAIN, Style, fitted, width};
use super::table::{self, Row};
use super::words::Word;

/// No column is wider.
const WIDEST: usize = 60;
/// Terminals with more columns show what `-o wide` shows.
const WIDE: usize = 140;

/// Exactly as many lines as the terminal has.
pub fn draw(app: &mut App, columns: usize, height: usize, now: Timestamp) -> Vec<Line> {
    let body = height.saturating_sub(2);
    app.page = body.saturating_sub(usize::from(app.text.is_none()));
    let mut lines = vec![title(app)];
    match &app.text {
        _ if app.mode == Mode::Help => {
            lines.extend(app.language.say(Word::Help).lines().map(|line| Line::of(line, PLAIN)));
        }
        Some(text) => lines.extend(text_lines(text, body)),
        None => lines.extend(row_lines(app, columns, body, now)),
    }
    lines.resize(height.saturating_sub(1).max(1), Line::default());
    lines.push(footer(app));
    lines
}

fn title(app: &App) -> Line {
    let name = Line::of(" minik8s ", Style { reversed: true, ..BOLD }).add(" ", PLAIN);
    if let Some(text) = &app.text {
        return name.add(format!("$ minik8s {}", text.title), BOLD);
    }
    let namespace = match app.namespace.as_str() {
        _ if !app.kind.namespaced => "",
        "" => app.language.say(Word::AllNamespaces),
        namespace => namespace,
    };
    let count = format!("  {}/{}  {namespace}", app.shown().len(), app.rows.len());
    let line = name.add(app.kind.id(), BOLD).add(count, PLAIN);
    match app.filter.is_empty() {
        true => line,
        false => line.add(format!("  /{}", app.filter), Style { colour: Colour::Cyan, ..PLAIN }),
    }
}

fn footer(app: &App) -> Line {
    let say = |word| app.language.say(word);
    let yellow = Style { colour: Colour::Yellow, ..PLAIN };
    match &app.mode {
        Mode::Command(text) => {
            let offers = app.offers(text).into_iter().take(6).collect::<Vec<_>>().join("  ");
            Line::of(format!(":{text}▏"), BOLD).add(format!("  {offers}"), FAINT)
        }
        Mode::Filter => {
            let typed = app.text.as_ref().map_or(&app.filter, |text| &text.search);
            Line::of(format!("/{typed}▏"), BOLD)
        }
        Mode::Confirm(command) => Line::of(
            format!("$ minik8s {}   {}", command.join(" "), say(Word::Confirm)),
            Style { bold: true, ..yellow },
        ),
        _ if !app.trouble.is_empty() => {
            let red = Style { colour: Colour::Red, ..PLAIN };
            Line::of(format!("{}: {}", say(Word::Away), app.trouble), red)
        }
        _ if !app.message.is_empty() => Line::of(app.message.as_str(), yellow),
        _ => Line::of(say(Word::Keys), FAINT),
    }
}

fn text_lines(text: &Text, height: usize) -> Vec<Line> {
    let found = text.found();
    let last = found.len().saturating_sub(height);
    let top = if text.follows { last } else { text.top.min(last) };
    found.into_iter().skip(top).take(height).map(|line| Line::of(line.as_str(), PLAIN)).collect()
}

fn row_lines(app: &App, columns: usize, height: usize, now: Timestamp) -> Vec<Line> {
    let shown = app.shown();
    if shown.is_empty() {
        let word = match () {
            () if !app.loaded => Word::Loading,
            () if app.rows.is_empty() => Word::Empty,
            () => Word::NoMatch,
        };
        return vec![Line::of(app.language.say(word), PLAIN)];
    }
    let has_namespaces = app.kind.namespaced && app.namespace.is_empty();
    let visible: Vec<usize> = (0..app.columns.len())
        .filter(|at| app.columns.get(*at).is_some_and(|column| !column.is_wide || columns > WIDE))
        .collect();
    let cursor = app.cursor.min(shown.len() - 1);
    let room = height.saturating_sub(1).max(1);
    let first = (cursor + 1).saturating_sub(room);
    let namespace = |text: &str| Some(text.to_owned()).filter(|_| has_namespaces).into_iter();
    let cells = |row: &Row| -> Vec<String> {
        let own = visible.iter().map(|at| table::cell(&app.columns, row, *at, now));
        namespace(&row.namespace).chain(own).collect()
    };
    let head = visible.iter().map(|at| {
        let mark =
            app.sort.filter(|(column, _)| column == at).map_or("", |(_, down)| if down { "↓" } else { "↑" });
        format!("{}{mark}", app.columns[*at].name.to_uppercase())
    });
    let head: Vec<String> = namespace("NAMESPACE").chain(head).collect();
    let rows: Vec<Vec<String>> = shown[first..].iter().take(room).map(|row| cells(row)).collect();
    let widest = |at: usize| {
        let texts = rows.iter().map(|row| &row[at]).chain([&head[at]]);
        texts.map(|text| width(text)).max().unwrap_or(0).min(WIDEST)
    };
    let widths: Vec<usize> = (0..head.len()).map(widest).collect();
    let line = |cells: &[String]| {
        let each = cells.iter().zip(&widths).map(|(cell, width)| fitted(cell, *width));
        each.collect::<Vec<String>>().join("  ")
    };
    let mut lines = vec![Line::of(line(&head), BOLD)];
    lines.extend(rows.iter().enumerate().map(|(at, cells)| {
        let colour = colour(&app.columns, shown[first + at]);
        Line::of(line(cells), Style { colour, reversed: first + at == cursor, bold: false })
    }));
    lines
}

/// What needs somebody stands out; its status says it in words as well.
fn colour(columns: &[table::Column], row: &Row) -> Colour {
    let status = columns.iter().position(|column| matches!(column.name.as_str(), "Status" | "Type"));
    let status = status.and_then(|at| row.cells.get(at)).map_or("", String::as_str);
    let ready = columns.iter().position(|column| column.name == "Ready").and_then(|at| row.cells.get(at));
    let unready = ready.and_then(|ready| ready.split_once('/')).is_some_and(|(ready, all)| ready != all);
    let bad = ["Fail", "Error", "Crash", "BackOff", "NotReady", "OOM", "Evicted", "Warning", "Lost"];
    match status {
        _ if bad.iter().any(|word| status.contains(word)) => Colour::Red,
        "Completed" | "Succeeded" => Colour::Faint,
        "Pending" | "Terminating" | "ContainerCreating" | "Unknown" => Colour::Yellow,
        _ if unready => Colour::Yellow,
        _ => Colour::Plain,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::table::Kind;
    use super::super::words::Language;
    use super::*;

    fn screen(app: &mut App) -> Vec<String> {
        let lines = draw(app, 60, 6, "2026-01-01T00:01:00Z".parse().unwrap());
        assert_eq!(lines.len(), 6);
        lines.iter().map(Line::text).collect()
    }

    fn app(language: Language) -> App {
        let mut app = App::new(Kind::pods(), String::new(), language);
        let row = |name: &str, status: &str| {
            json!({"cells": [name, status, "1h"], "object": {"metadata": {"name": name, "namespace": "shop",
                "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}}})
        };
        let rows: Vec<Value> = vec![row("web\u{1b}[31m-1", "Running"), row("x", "CrashLoopBackOff")];
        let table = json!({"columnDefinitions": [{"name": "Name"}, {"name": "Status"}, {"name": "Age"}], "rows": rows});
        app.columns = table::columns(&table).unwrap();
        app.rows = table::rows(&table);
        app.loaded = true;
        app
    }

    #[test]
    fn rows_with_their_heads() {
        let shown = screen(&mut app(Language::English));
        assert_eq!(shown[0], " minik8s  pods  2/2  all namespaces");
        assert_eq!(shown[1], "NAMESPACE  NAME   STATUS            AGE");
        assert_eq!(shown[2], "shop       web-1  Running           60s");
        assert_eq!(shown[3], "shop       x      CrashLoopBackOff  60s");
        assert!(shown[5].starts_with(": command  / filter"), "{shown:?}");
    }

    #[test]
    fn cursor_stays_in_sight_and_words_are_chinese() {
        let mut app = app(Language::Chinese);
        app.rows = (0..100).map(|at| Row { name: format!("pod-{at:02}"), ..app.rows[0].clone() }).collect();
        app.rows.iter_mut().for_each(|row| row.cells[0] = row.name.clone());
        app.cursor = 99;
        assert!(screen(&mut app)[4].contains("pod-99"));
        assert_eq!(app.page, 3);
        app.filter = "nothing".to_owned();
        assert_eq!(screen(&mut app)[1], "没有匹配的内容");
    }

    #[test]
    fn small_terminals_are_no_trouble() {
        for (columns, height) in [(0, 0), (1, 1), (3, 2), (500, 3)] {
            draw(&mut app(Language::English), columns, height, Timestamp::UNIX_EPOCH);
        }
    }
}
