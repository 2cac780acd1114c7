//! `get`: objects as tables or in other forms, once or as they change.

mod stream;

use clap::Args;
use serde_json::Value;

use crate::client::{AS_TABLE, Call};
use crate::discovery::Kind;
use crate::error::{Error, Result};
use crate::flags::{OutputFlag, TargetFlags};
use crate::output;
use crate::print::neat::neat;
use crate::print::table::{Style, Table};
use crate::print::{self, Form, sort};
use crate::select::{self, Filter, Target, Want};
use crate::session::Session;

/// Show objects
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s get pods
  minik8s get pods -A -o wide
  minik8s get deploy/web -o yaml
  minik8s get deploy/web -o yaml --neat > web.yaml
  minik8s get pods -l app=web --sort-by=.metadata.creationTimestamp
  minik8s get pods -w
  minik8s get nodes -o jsonpath='{.items[*].metadata.name}'")]
pub struct Get {
    #[command(flatten)]
    targets: TargetFlags,
    #[command(flatten)]
    output: OutputFlag,
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Also show each change that follows
    #[arg(short, long)]
    watch: bool,
    /// Show only the changes that follow
    #[arg(long)]
    watch_only: bool,
    /// Tell with each change what kind of change it is
    #[arg(long)]
    output_watch_events: bool,
    /// Leave the heading of tables out
    #[arg(long)]
    no_headers: bool,
    /// Add a column with all labels
    #[arg(long)]
    show_labels: bool,
    /// Add a column for each of these labels
    #[arg(short = 'L', long, value_name = "LABEL", value_delimiter = ',')]
    label_columns: Vec<String>,
    /// Put the kind before each name
    #[arg(long)]
    show_kind: bool,
    /// Sort by this field, e.g. .metadata.name
    #[arg(long, value_name = "JSONPATH")]
    sort_by: Option<String>,
    /// How many objects are fetched at a time; 0 for all
    #[arg(long, value_name = "N", default_value_t = 500)]
    chunk_size: usize,
    /// It is no mistake if there is no such object
    #[arg(long)]
    ignore_not_found: bool,
    /// Show a subresource: status or scale
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,
    /// Ask for this path of the API and show the answer as it is
    #[arg(long, value_name = "PATH")]
    raw: Option<String>,
    /// With -o yaml or json: as a person would write it, without what the server adds
    #[arg(long)]
    neat: bool,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    server_print: Option<bool>,
}

pub async fn run(session: &Session, verb: Get) -> Result<()> {
    if let Some(path) = &verb.raw {
        let answer = session.client().await?.bytes(Call::get(path.as_str()).accept("*/*")).await?;
        output::bytes(&answer);
        return Ok(());
    }
    let form = Form::parse(&verb.output)?;
    if verb.watch || verb.watch_only {
        return stream::run(session, &verb, &form).await;
    }
    match &form {
        Form::Table { wide } if !verb.targets.files.is_set() => tables(session, &verb, *wide).await,
        _ => objects(session, &verb, &form).await,
    }
}

impl Get {
    fn style(&self, wide: bool, kind: Option<&Kind>) -> Style {
        Style {
            wide,
            no_headers: self.no_headers,
            show_labels: self.show_labels,
            label_columns: self.label_columns.clone(),
            namespace: self.all_namespaces && kind.is_none_or(|kind| kind.namespaced),
            kind: None,
        }
    }

    /// The request for one kind, or one object of it.
    fn call(&self, session_namespace: &str, want: &Want) -> Call {
        let namespace = (!self.all_namespaces).then_some(session_namespace);
        match want {
            Want::Object { kind, name } => {
                let mut path = kind.path(Some(session_namespace), Some(name));
                if let Some(subresource) = &self.subresource {
                    path = format!("{path}/{subresource}");
                }
                Call::get(path)
            }
            Want::List { kind } => Call::get(kind.path(namespace, None))
                .maybe("labelSelector", self.targets.selectors.selector.as_deref())
                .maybe("fieldSelector", self.targets.selectors.field_selector.as_deref())
                .maybe("limit", (self.chunk_size > 0).then(|| self.chunk_size.to_string())),
        }
    }

    async fn wants(&self, session: &Session) -> Result<Vec<Want>> {
        let wants = select::wants(session, &self.targets.words).await?;
        if wants.is_empty() {
            return Err(Error::plain(
                "You must specify the type of resource to get. Use \"minik8s api-resources\" for a complete list of \
                 supported resources.",
            ));
        }
        let names = wants.iter().any(|want| matches!(want, Want::Object { .. }));
        if names && self.all_namespaces {
            return Err(Error::plain("a resource cannot be retrieved by name across all namespaces"));
        }
        if names && self.targets.selectors.is_set() {
            return Err(Error::plain("name cannot be provided when a selector is specified"));
        }
        Ok(wants)
    }
}

fn kind_of(want: &Want) -> &Kind {
    match want {
        Want::Object { kind, .. } | Want::List { kind } => kind,
    }
}

async fn tables(session: &Session, verb: &Get, wide: bool) -> Result<()> {
    let wants = verb.wants(session).await?;
    let several = wants.iter().any(|want| kind_of(want) != kind_of(&wants[0]));
    let (mut groups, mut errors): (Vec<(Kind, Table)>, Vec<Error>) = (Vec::new(), Vec::new());
    for want in &wants {
        let kind = kind_of(want);
        match fetch_table(session, verb, want).await {
            Ok(table) => match groups.last_mut().filter(|(known, _)| known == kind) {
                Some((_, group)) => group.rows.extend(table.rows),
                None => groups.push((kind.clone(), table)),
            },
            Err(error)
                if error.is_not_found() && verb.ignore_not_found && matches!(want, Want::Object { .. }) => {}
            // Of many kinds, those that cannot be listed are passed over.
            Err(error) if several && matches!(want, Want::List { .. }) && is_method_not_allowed(&error) => {}
            Err(error) => errors.push(error),
        }
    }
    let mut text = String::new();
    for (kind, table) in &mut groups {
        if table.rows.is_empty() {
            continue;
        }
        if let Some(path) = &verb.sort_by {
            sort::sort_by(&mut table.rows, path, |row| &row.object)?;
        }
        if !session.as_kubectl && kind.plural == "nodes" && kind.group.is_empty() {
            super::top::add_use(session, table).await;
        }
        let mut style = verb.style(wide, Some(kind));
        style.kind = (several || verb.show_kind).then(|| kind.qualified());
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table.render(&style));
    }
    output::text(&text);
    if text.is_empty() && errors.is_empty() && !verb.ignore_not_found {
        eprintln!("{}", nothing_found(session, verb, kind_of(&wants[0])).await?);
    }
    Error::from_all(errors)
}

fn is_method_not_allowed(error: &Error) -> bool {
    matches!(error, Error::Server(error) if error.code == 405)
}

async fn nothing_found(session: &Session, verb: &Get, kind: &Kind) -> Result<String> {
    if verb.all_namespaces || !kind.namespaced {
        return Ok("No resources found".to_owned());
    }
    Ok(format!("No resources found in {} namespace.", session.namespace().await?))
}

async fn fetch_table(session: &Session, verb: &Get, want: &Want) -> Result<Table> {
    let (client, namespace) = (session.client().await?, session.namespace().await?);
    let mut call = verb.call(namespace, want).accept(AS_TABLE);
    if verb.sort_by.is_some() {
        call = call.query("includeObject", "Object");
    }
    let mut table = Table::default();
    let mut next: Option<String> = None;
    loop {
        let answer = match client.send(call.clone().maybe("continue", next.as_deref())).await {
            Err(error) if error.is_not_found() && kind_of(want).namespaced && !verb.ignore_not_found => {
                return Err(select::blamed(session, Some(namespace), error).await);
            }
            answer => answer?,
        };
        let part = Table::new(&answer);
        table.columns = part.columns;
        table.rows.extend(part.rows);
        match answer["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(token) if matches!(want, Want::List { .. }) => next = Some(token.to_owned()),
            _ => return Ok(table),
        }
    }
}

/// Everything but tables.
async fn objects(session: &Session, verb: &Get, form: &Form) -> Result<()> {
    let filter = Filter {
        all_namespaces: verb.all_namespaces,
        ignore_not_found: verb.ignore_not_found,
        ..verb.targets.filter()
    };
    let single = is_single(session, verb).await?;
    let (mut found, errors) = match &verb.subresource {
        None => select::find(session, &verb.targets.words, &filter).await?,
        Some(_) => (subresources(session, verb).await?, Vec::new()),
    };
    if let Some(path) = &verb.sort_by {
        sort::sort_by(&mut found, path, |target| &target.object)?;
    }
    if matches!(form, Form::Name) {
        for target in &found {
            output::line(target.shown());
        }
        return Error::from_all(errors);
    }
    let mut objects: Vec<Value> = found.into_iter().map(|target| target.object).collect();
    if let Form::Columns(columns) = form {
        output::text(columns.render(&objects, !verb.no_headers)?);
        return Error::from_all(errors);
    }
    if objects.is_empty() && single {
        return Error::from_all(errors);
    }
    let shown = if single && objects.len() == 1 { objects.remove(0) } else { print::list(objects) };
    let shown = if verb.neat { neat(&shown) } else { shown };
    if form.is_table() {
        output::text(Table::new(&shown).render(&verb.style(false, None)));
    } else {
        output::text(print::render(form, &shown, verb.output.show_managed_fields)?);
    }
    Error::from_all(errors)
}

/// Whether exactly one object was asked for: then it is not shown as a list.
async fn is_single(session: &Session, verb: &Get) -> Result<bool> {
    if verb.targets.files.is_set() {
        return Ok(verb.targets.files.filename.len() == 1);
    }
    let wants = verb.wants(session).await?;
    Ok(matches!(wants.as_slice(), [Want::Object { .. }]))
}

async fn subresources(session: &Session, verb: &Get) -> Result<Vec<Target>> {
    let mut found = Vec::new();
    for want in verb.wants(session).await? {
        let object = session.client().await?.send(verb.call(session.namespace().await?, &want)).await?;
        found.push(Target::new(kind_of(&want).clone(), object));
    }
    Ok(found)
}
