//! What the terminal shows and what keys do, as a state machine: (state, key) → state and what is to be done. No terminal
//! and no cluster here, so that it is tested by typing.

use std::collections::VecDeque;

use super::keys::Key;
use super::table::{Column, Kind, Row, matches};
use super::words::{Language, Word};

/// Lines of a text that are kept: a log never grows beyond.
const MOST_LINES: usize = 10_000;

/// What the machine wants to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Quit,
    /// Show the objects of `App::kind` in `App::namespace` instead.
    Follow,
    /// Run this command of our own, and show what it prints.
    Show(Vec<String>),
    /// End the command that is shown.
    Hide,
    /// Let this command of our own have the terminal.
    TakeOver(Vec<String>),
    /// Run this command of our own, and tell how it ended.
    Run(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    Browse,
    Filter,
    Command(String),
    Confirm(Vec<String>),
    Help,
}

/// A command's output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    pub title: String,
    pub lines: VecDeque<String>,
    /// The first line that is shown; what follows moves it.
    pub top: usize,
    pub follows: bool,
    pub search: String,
    pub ended: bool,
}

impl Text {
    pub fn push(&mut self, line: String) {
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
            self.top = self.top.saturating_sub(1);
        }
        self.lines.push_back(line);
    }

    /// The lines that the search leaves.
    pub fn found(&self) -> Vec<&String> {
        let wanted = self.search.to_lowercase();
        self.lines.iter().filter(|line| wanted.is_empty() || line.to_lowercase().contains(&wanted)).collect()
    }
}

pub struct App {
    pub language: Language,
    pub kinds: Vec<Kind>,
    pub kind: Kind,
    /// Empty: all of them.
    pub namespace: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    pub loaded: bool,
    pub filter: String,
    pub cursor: usize,
    /// The column that is sorted by, and whether from its end.
    pub sort: Option<(usize, bool)>,
    pub mode: Mode,
    pub text: Option<Text>,
    /// What the cluster's trouble is, if it has one.
    pub trouble: String,
    pub message: String,
    /// How many rows or lines are in sight; whoever draws says so.
    pub page: usize,
    before: Vec<(Kind, String, String)>,
}

impl App {
    pub fn new(kind: Kind, namespace: String, language: Language) -> App {
        App {
            language,
            kinds: Vec::new(),
            kind,
            namespace,
            columns: Vec::new(),
            rows: Vec::new(),
            loaded: false,
            filter: String::new(),
            cursor: 0,
            sort: None,
            mode: Mode::Browse,
            text: None,
            trouble: String::new(),
            message: String::new(),
            page: 20,
            before: Vec::new(),
        }
    }

    /// The rows that the filter leaves, in order.
    pub fn shown(&self) -> Vec<&Row> {
        let mut shown: Vec<&Row> =
            self.rows.iter().filter(|row| matches(&self.columns, row, &self.filter)).collect();
        match self.sort {
            Some((column, down)) => {
                let key = |row: &Row| sort_key(row.cells.get(column).map_or("", String::as_str));
                shown.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
                if down {
                    shown.reverse();
                }
            }
            None => shown.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))),
        }
        shown
    }

    pub fn chosen(&self) -> Option<Row> {
        let shown = self.shown();
        shown.get(self.cursor.min(shown.len().saturating_sub(1))).map(|row| (*row).clone())
    }

    pub fn key(&mut self, key: Key) -> Option<Effect> {
        self.message.clear();
        match std::mem::replace(&mut self.mode, Mode::Browse) {
            Mode::Help => None,
            Mode::Confirm(command) => (key == Key::Char('y')).then_some(Effect::Run(command)),
            Mode::Filter => {
                self.type_filter(key);
                None
            }
            Mode::Command(text) => self.type_command(text, key),
            Mode::Browse if self.text.is_some() => self.text_key(key),
            Mode::Browse => self.row_key(key),
        }
    }

    fn type_filter(&mut self, key: Key) {
        let target = match &mut self.text {
            Some(text) => &mut text.search,
            None => &mut self.filter,
        };
        match key {
            Key::Enter => return,
            Key::Escape => {
                target.clear();
                return;
            }
            Key::Backspace => drop(target.pop()),
            Key::Char(character) => target.push(character),
            _ => {}
        }
        self.cursor = 0;
        self.mode = Mode::Filter;
    }

    fn type_command(&mut self, mut text: String, key: Key) -> Option<Effect> {
        match key {
            Key::Escape => return None,
            Key::Enter => return self.command(&text),
            Key::Backspace => drop(text.pop()),
            Key::Tab => {
                if let Some(first) = self.offers(&text).first() {
                    text = first.clone();
                }
            }
            Key::Char(character) => text.push(character),
            _ => {}
        }
        self.mode = Mode::Command(text);
        None
    }

    /// Kinds whose name begins so.
    pub fn offers(&self, text: &str) -> Vec<String> {
        let text = text.to_lowercase();
        let mut found: Vec<String> = self
            .kinds
            .iter()
            .filter(|kind| kind.plural.starts_with(&text) || kind.short_names.contains(&text))
            .map(Kind::id)
            .collect();
        found.sort_by_key(|id| (id.contains('.'), id.len()));
        found
    }

    fn command(&mut self, text: &str) -> Option<Effect> {
        let mut words = text.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next());
        match first {
            "" => return None,
            "q" | "quit" => return Some(Effect::Quit),
            "help" => {
                self.mode = Mode::Help;
                return None;
            }
            "ns" | "namespace" | "namespaces" if second.is_some() || first == "ns" => {
                let namespace = second.filter(|name| !matches!(*name, "all" | "*")).unwrap_or_default();
                return Some(self.go(self.kind.clone(), namespace.to_owned(), String::new()));
            }
            _ => {}
        }
        let Some(kind) = self.kinds.iter().find(|kind| kind.is_called(first)).cloned() else {
            self.message = format!("{}: {first}", self.language.say(Word::Unknown));
            return None;
        };
        let namespace = second.map_or_else(|| self.namespace.clone(), str::to_owned);
        Some(self.go(kind, namespace, String::new()))
    }

    /// Shows another list; Esc comes back.
    fn go(&mut self, kind: Kind, namespace: String, filter: String) -> Effect {
        let before = (self.kind.clone(), self.namespace.clone(), self.filter.clone());
        self.before.push(before);
        self.set(kind, namespace, filter)
    }

    fn set(&mut self, kind: Kind, namespace: String, filter: String) -> Effect {
        (self.kind, self.namespace, self.filter) = (kind, namespace, filter);
        (self.cursor, self.sort, self.loaded) = (0, None, false);
        self.rows.clear();
        self.columns.clear();
        self.trouble.clear();
        Effect::Follow
    }

    fn row_key(&mut self, key: Key) -> Option<Effect> {
        let count = self.shown().len();
        let step = |cursor: usize, by: isize| {
            cursor.min(count.saturating_sub(1)).saturating_add_signed(by).min(count.saturating_sub(1))
        };
        let page = isize::try_from(self.page.max(2) - 1).unwrap_or(1);
        match key {
            Key::Control('c') => return Some(Effect::Quit),
            Key::Control('d') => return self.delete(),
            Key::Char('q') => return Some(Effect::Quit),
            Key::Char('j') | Key::Down => self.cursor = step(self.cursor, 1),
            Key::Char('k') | Key::Up => self.cursor = step(self.cursor, -1),
            Key::Char('g') | Key::Home => self.cursor = 0,
            Key::Char('G') | Key::End => self.cursor = count.saturating_sub(1),
            Key::PageDown => self.cursor = step(self.cursor, page),
            Key::PageUp => self.cursor = step(self.cursor, -page),
            Key::Char(':') => self.mode = Mode::Command(String::new()),
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('?') => self.mode = Mode::Help,
            Key::Char('0') => return Some(self.go(self.kind.clone(), String::new(), self.filter.clone())),
            Key::Char('n') => {
                let namespace = self.chosen()?.namespace;
                return Some(self.go(self.kind.clone(), namespace, self.filter.clone()));
            }
            Key::Char('o') => {
                let next = self.sort.map_or(0, |(column, _)| (column + 1) % self.columns.len().max(1));
                self.sort = Some((next, false));
            }
            Key::Char('O') => self.sort = Some(self.sort.map_or((0, true), |(column, down)| (column, !down))),
            Key::Escape => return self.back(),
            Key::Enter => return self.open(),
            Key::Char(verb) => return self.act(verb),
            _ => {}
        }
        None
    }

    fn back(&mut self) -> Option<Effect> {
        if !self.filter.is_empty() {
            self.filter.clear();
            return None;
        }
        let (kind, namespace, filter) = self.before.pop()?;
        Some(self.set(kind, namespace, filter))
    }

    /// What is below it: a node's or workload's pods, a pod's log, else its text.
    fn open(&mut self) -> Option<Effect> {
        let row = self.chosen()?;
        match self.kind.id().as_str() {
            "pods" => self.act('l'),
            "nodes" => {
                let pods = Kind::pods();
                Some(self.go(pods, String::new(), format!("node:{}", row.name)))
            }
            "namespaces" => Some(self.go(Kind::pods(), row.name, String::new())),
            "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps"
            | "jobs.batch" => Some(self.go(Kind::pods(), row.namespace, format!("name:{}-", row.name))),
            _ => self.act('y'),
        }
    }

    /// A key that does something with the row.
    fn act(&mut self, verb: char) -> Option<Effect> {
        let row = self.chosen()?;
        let id = self.kind.id();
        let is_pod = id == "pods";
        let object = format!("{id}/{}", row.name);
        let with = |words: &[&str], more: &[&str]| {
            let mut command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            if !row.namespace.is_empty() {
                command.extend(["-n".to_owned(), row.namespace.clone()]);
            }
            command.extend(more.iter().map(|word| (*word).to_owned()));
            command
        };
        let command = match verb {
            'd' => with(&["describe", &id, &row.name], &[]),
            'y' => with(&["get", &id, &row.name, "-o", "yaml"], &[]),
            'w' => {
                let short = match id.as_str() {
                    "pods" => "pod",
                    "horizontalpodautoscalers.autoscaling" => "hpa",
                    "persistentvolumeclaims" => "pvc",
                    "functions.minik8s.io" => "function",
                    _ => return self.refuse(Word::NotForThis),
                };
                with(&["why", &format!("{short}/{}", row.name)], &[])
            }
            'l' if is_pod => with(&["logs", &row.name, "--all-containers", "--tail=2000", "-f"], &[]),
            'p' if is_pod => with(&["logs", &row.name, "--previous", "--tail=2000"], &[]),
            'l' => with(&["logs", &object, "--all-containers", "--tail=500", "-f"], &[]),
            's' if is_pod => {
                let command = with(&["exec", "-it", &row.name], &["--", "sh"]);
                return Some(Effect::TakeOver(command));
            }
            'e' => return Some(Effect::TakeOver(with(&["edit", &id, &row.name], &[]))),
            's' | 'p' => return self.refuse(Word::NotForThis),
            _ => return None,
        };
        let follows = verb == 'l';
        self.text = Some(Text { title: command.join(" "), follows, ..Text::default() });
        Some(Effect::Show(command))
    }

    fn refuse(&mut self, word: Word) -> Option<Effect> {
        self.message = self.language.say(word).to_owned();
        None
    }

    fn delete(&mut self) -> Option<Effect> {
        let row = self.chosen()?;
        let mut command = vec!["delete".to_owned(), self.kind.id(), row.name, "--wait=false".to_owned()];
        if !row.namespace.is_empty() {
            command.extend(["-n".to_owned(), row.namespace]);
        }
        self.mode = Mode::Confirm(command);
        None
    }

    fn text_key(&mut self, key: Key) -> Option<Effect> {
        let page = self.page.max(2) - 1;
        let text = self.text.as_mut()?;
        let last = text.found().len().saturating_sub(self.page);
        if text.follows {
            text.top = last;
        }
        let top = text.top.min(last);
        match key {
            Key::Control('c') => return Some(Effect::Quit),
            Key::Escape if !text.search.is_empty() => text.search.clear(),
            Key::Escape | Key::Char('q') => {
                self.text = None;
                return Some(Effect::Hide);
            }
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('?') => self.mode = Mode::Help,
            Key::Char('f') => text.follows = !text.follows,
            Key::Char('j') | Key::Down => (text.top, text.follows) = ((top + 1).min(last), false),
            Key::Char('k') | Key::Up => (text.top, text.follows) = (top.saturating_sub(1), false),
            Key::PageDown | Key::Char(' ') => {
                (text.top, text.follows) = ((top + page).min(last), false);
            }
            Key::PageUp => (text.top, text.follows) = (top.saturating_sub(page), false),
            Key::Char('g') | Key::Home => (text.top, text.follows) = (0, false),
            Key::Char('G') | Key::End => (text.top, text.follows) = (last, !text.ended),
            _ => {}
        }
        None
    }
}

/// Numbers by value, `2/3` by its first one, the rest as text after them.
fn sort_key(cell: &str) -> (f64, String) {
    let digits = cell.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(cell.len());
    let is_number = cell[digits..].chars().all(|c| c.is_ascii_digit() || "/.%".contains(c));
    match cell[..digits].parse() {
        Ok(number) if is_number => (number, String::new()),
        _ => (f64::INFINITY, cell.to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> App {
        let mut app = App::new(Kind::pods(), "shop".to_owned(), Language::English);
        app.columns = ["Name", "Ready", "Status", "Restarts"]
            .map(|name| Column { name: name.to_owned(), is_wide: false })
            .to_vec();
        let row = |name: &str, status: &str, restarts: &str| Row {
            uid: name.to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            cells: [name, "1/1", status, restarts].map(str::to_owned).to_vec(),
            ..Row::default()
        };
        app.rows =
            vec![row("web-2", "Running", "10"), row("web-1", "Pending", "9"), row("db-0", "Running", "0")];
        let deployments = Kind {
            plural: "deployments".into(),
            group: "apps".into(),
            kind: "Deployment".into(),
            short_names: vec!["deploy".into()],
            ..Kind::pods()
        };
        app.kinds = vec![Kind::pods(), deployments];
        app
    }

    /// Types what is written; ⏎ and ␛ are keys too.
    fn type_in(app: &mut App, text: &str) -> Vec<Effect> {
        let key = |character| match character {
            '⏎' => Key::Enter,
            '␛' => Key::Escape,
            other => Key::Char(other),
        };
        text.chars().filter_map(|character| app.key(key(character))).collect()
    }

    fn names(app: &App) -> Vec<String> {
        app.shown().iter().map(|row| row.name.clone()).collect()
    }

    #[test]
    fn rows_are_filtered_sorted_and_chosen() {
        let mut app = app();
        assert_eq!(names(&app), ["db-0", "web-1", "web-2"]);
        type_in(&mut app, "/web⏎j");
        assert_eq!((names(&app).len(), app.chosen().unwrap().name), (2, "web-2".to_owned()));
        type_in(&mut app, "jjjj");
        assert_eq!(app.chosen().unwrap().name, "web-2", "there is no row below the last");
        type_in(&mut app, "␛");
        assert_eq!(names(&app).len(), 3, "Esc takes the filter away");
        type_in(&mut app, "oooo");
        assert_eq!(names(&app), ["db-0", "web-1", "web-2"], "9 is before 10");
        type_in(&mut app, "O");
        assert_eq!(names(&app), ["web-2", "web-1", "db-0"]);
    }

    #[test]
    fn letters_are_letters_while_typing() {
        let mut app = app();
        assert!(type_in(&mut app, "/qdsl").is_empty());
        assert_eq!(app.filter, "qdsl");
    }

    #[test]
    fn keys_become_commands_of_our_own() {
        let check =
            |keys: &str, expected: Effect| assert_eq!(type_in(&mut app(), keys), [expected], "{keys}");
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
        check("l", Effect::Show(words("logs db-0 --all-containers --tail=2000 -f -n shop")));
        check("⏎", Effect::Show(words("logs db-0 --all-containers --tail=2000 -f -n shop")));
        check("w", Effect::Show(words("why pod/db-0 -n shop")));
        check("jd", Effect::Show(words("describe pods web-1 -n shop")));
        check("s", Effect::TakeOver(words("exec -it db-0 -n shop -- sh")));
        check("q", Effect::Quit);
        check(":q⏎", Effect::Quit);
        check("0", Effect::Follow);
    }

    #[test]
    fn deleting_is_asked_about() {
        let mut app = app();
        let control = Key::Control('d');
        assert_eq!(app.key(control), None);
        assert_eq!(type_in(&mut app, "n"), [], "no");
        app.key(control);
        let [Effect::Run(command)] = &type_in(&mut app, "y")[..] else { panic!("nothing is done") };
        assert_eq!(command.join(" "), "delete pods db-0 --wait=false -n shop");
    }

    #[test]
    fn palette_leads_to_kinds_and_back() {
        let mut app = app();
        assert_eq!(type_in(&mut app, ":deploy⏎"), [Effect::Follow]);
        assert_eq!((app.kind.id().as_str(), app.namespace.as_str()), ("deployments.apps", "shop"));
        assert_eq!(type_in(&mut app, ":nonsense⏎"), []);
        assert!(app.message.contains("nonsense"));
        assert_eq!(type_in(&mut app, ":ns bank⏎"), [Effect::Follow]);
        assert_eq!(app.namespace, "bank");
        assert_eq!(type_in(&mut app, "␛␛"), [Effect::Follow, Effect::Follow]);
        assert_eq!((app.kind.id().as_str(), app.namespace.as_str()), ("pods", "shop"));
        assert_eq!(type_in(&mut app, "␛"), [], "there is nothing further back");
        assert_eq!(app.offers("dep"), ["deployments.apps"]);
    }

    #[test]
    fn texts_scroll_search_and_stay_small() {
        let mut app = app();
        app.page = 10;
        type_in(&mut app, "l");
        let text = app.text.as_mut().unwrap();
        for line in 0..MOST_LINES + 500 {
            text.push(format!("line {line}"));
        }
        assert_eq!(text.lines.len(), MOST_LINES);
        type_in(&mut app, "k");
        let text = app.text.as_ref().unwrap();
        assert_eq!((text.top, text.follows), (MOST_LINES - 10 - 1, false));
        type_in(&mut app, "g/line 1049⏎");
        assert_eq!(app.text.as_ref().unwrap().found().len(), 11, "1049 and 10490 to 10499");
        assert_eq!(type_in(&mut app, "␛␛"), [Effect::Hide]);
        assert!(app.text.is_none());
    }
}
