//! Which objects a command is about: `TYPE NAME…`, `TYPE/NAME…`, `TYPE` with selectors, or the objects of
//! files.

use serde_json::Value;

use crate::client::Call;
use crate::discovery::Kind;
use crate::error::{Error, Result};
use crate::flags::{FileFlags, SelectorFlags, TargetFlags};
use crate::manifest;
use crate::session::Session;

/// Lists are read in parts of this size.
const CHUNK: usize = 500;

/// What the words of a command name.
#[derive(Debug, Clone, PartialEq)]
pub enum Want {
    Object { kind: Kind, name: String },
    List { kind: Kind },
}

/// One object and where it is.
#[derive(Debug, Clone)]
pub struct Target {
    pub kind: Kind,
    pub namespace: Option<String>,
    pub name: String,
    /// As the server has it, or as the file has it.
    pub object: Value,
}

impl Target {
    pub fn new(kind: Kind, object: Value) -> Target {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let namespace = text(&object["metadata"]["namespace"]);
        Target { kind, namespace, name: text(&object["metadata"]["name"]).unwrap_or_default(), object }
    }

    pub fn path(&self) -> String {
        self.kind.path(self.namespace.as_deref(), Some(&self.name))
    }

    /// `deployment.apps/web`.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.kind.qualified(), self.name)
    }
}

/// Of which objects, besides those that words name.
#[derive(Debug, Clone, Default)]
pub struct Filter<'a> {
    pub files: Option<&'a FileFlags>,
    pub selectors: SelectorFlags,
    pub all_namespaces: bool,
    pub ignore_not_found: bool,
}

impl TargetFlags {
    /// Of these objects, in one namespace.
    pub fn filter(&self) -> Filter<'_> {
        Filter { files: Some(&self.files), selectors: self.selectors.clone(), ..Filter::default() }
    }
}

impl SelectorFlags {
    pub fn is_set(&self) -> bool {
        self.selector.is_some() || self.field_selector.is_some()
    }
}

/// What the words mean, in the server's terms.
pub async fn wants(session: &Session, words: &[String]) -> Result<Vec<Want>> {
    let discovery = session.discovery().await?;
    let Some((first, names)) = words.split_first() else { return Ok(Vec::new()) };
    let slashed = words.iter().filter(|word| word.contains('/')).count();
    if slashed > 0 {
        if slashed < words.len() {
            return Err(Error::plain(
                "there is no need to specify a resource type as a separate argument when passing arguments in \
                 resource/name form (e.g. 'kubectl get resource/<resource_name>' instead of 'kubectl get resource \
                 resource/<resource_name>'",
            ));
        }
        let split = |word: &String| {
            let (kind, name) = word.split_once('/').unwrap_or((word, ""));
            if kind.is_empty() || name.is_empty() || name.contains('/') {
                return Err(Error::plain(format!(
                    "arguments in resource/name form must have a single resource and name, not {word:?}"
                )));
            }
            Ok(Want::Object { kind: discovery.find(kind)?.clone(), name: name.to_owned() })
        };
        return words.iter().map(split).collect();
    }
    let kinds = discovery.find_all(first)?;
    if names.is_empty() {
        return Ok(kinds.into_iter().map(|kind| Want::List { kind: kind.clone() }).collect());
    }
    let both = kinds.iter().flat_map(|kind| names.iter().map(move |name| (*kind, name)));
    Ok(both.map(|(kind, name)| Want::Object { kind: kind.clone(), name: name.clone() }).collect())
}

/// The objects as the server has them, with what went wrong beside what went well.
pub async fn find(
    session: &Session,
    words: &[String],
    filter: &Filter<'_>,
) -> Result<(Vec<Target>, Vec<Error>)> {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    if let Some(files) = filter.files.filter(|files| files.is_set()) {
        for target in of_files(session, files).await? {
            collect(fetch(session, target).await, filter, &mut found, &mut errors);
        }
        return Ok((found, errors));
    }
    let wants = wants(session, words).await?;
    if wants.is_empty() {
        return Err(Error::plain("You must specify the type of resource, e.g. pods, or a file with -f"));
    }
    for want in wants {
        match want {
            Want::Object { .. } if filter.selectors.is_set() => {
                return Err(Error::plain("name cannot be provided when a selector is specified"));
            }
            Want::Object { .. } if filter.all_namespaces => {
                return Err(Error::plain("a resource cannot be retrieved by name across all namespaces"));
            }
            Want::Object { kind, name } => {
                let target = named(session, kind, name).await?;
                collect(fetch(session, target).await, filter, &mut found, &mut errors);
            }
            Want::List { kind } => match list(session, &kind, filter).await {
                Ok(objects) => {
                    found.extend(objects.into_iter().map(|object| Target::new(kind.clone(), object)))
                }
                Err(error) => errors.push(error),
            },
        }
    }
    Ok((found, errors))
}

/// As [`find`], for commands that stop at the first error.
pub async fn find_all(session: &Session, words: &[String], filter: &Filter<'_>) -> Result<Vec<Target>> {
    let (found, errors) = find(session, words, filter).await?;
    Error::from_all(errors)?;
    Ok(found)
}

/// Exactly one object.
pub async fn find_one(session: &Session, words: &[String], files: Option<&FileFlags>) -> Result<Target> {
    let found = find_all(session, words, &Filter { files, ..Filter::default() }).await?;
    match <[Target; 1]>::try_from(found) {
        Ok([one]) => Ok(one),
        Err(found) => Err(Error::plain(format!("name one object, not {}: e.g. deployment/web", found.len()))),
    }
}

fn collect(fetched: Result<Target>, filter: &Filter<'_>, found: &mut Vec<Target>, errors: &mut Vec<Error>) {
    match fetched {
        Ok(target) => found.push(target),
        Err(error) if error.is_not_found() && filter.ignore_not_found => {}
        Err(error) => errors.push(error),
    }
}

/// Where an object of this name would be.
pub async fn named(session: &Session, kind: Kind, name: String) -> Result<Target> {
    let namespace = if kind.namespaced { Some(session.namespace().await?.to_owned()) } else { None };
    Ok(Target { kind, namespace, name, object: Value::Null })
}

/// The objects of files, as they stand there.
pub async fn of_files(session: &Session, files: &FileFlags) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for item in manifest::read_some(files, "use").await? {
        targets.push(of_item(session, &item).await?);
    }
    Ok(targets)
}

/// An object of a file, with its kind and namespace.
pub async fn of_item(session: &Session, item: &manifest::Item) -> Result<Target> {
    let find =
        |discovery: &crate::discovery::Discovery| discovery.of(item.api_version(), item.kind()).cloned();
    let mut kind = find(&*session.discovery().await?);
    if kind.is_none() {
        // Its definition may have been made a moment ago.
        kind = find(&*session.rediscover().await?);
    }
    let Some(kind) = kind else {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &item.object["metadata"];
        return Err(Error::plain(format!(
            "resource mapping not found for name: {:?} namespace: {:?} from {:?}: no matches for kind {:?} in version {:?}\n\
             ensure CRDs are installed first",
            text(&metadata["name"]),
            text(&metadata["namespace"]),
            item.source,
            item.kind(),
            item.api_version()
        )));
    };
    let mut object = item.object.clone();
    session.place(&kind, &mut object).await?;
    Ok(Target::new(kind, object))
}

/// The object as it is now.
pub async fn fetch(session: &Session, mut target: Target) -> Result<Target> {
    let found = session.client().await?.get(target.path()).await;
    target.object = match found {
        Err(error) if error.is_not_found() => {
            return Err(blamed(session, target.namespace.as_deref(), error).await);
        }
        found => found?,
    };
    Ok(target)
}

/// Of an object that is not found: its namespace may be what is missing.
pub async fn blamed(session: &Session, namespace: Option<&str>, error: Error) -> Error {
    let (Some(namespace), Ok(client)) = (namespace, session.client().await) else { return error };
    match client.get(format!("/api/v1/namespaces/{namespace}")).await {
        Err(missing) if missing.is_not_found() => missing,
        _ => error,
    }
}

/// All objects of a kind that the filter lets pass.
pub async fn list(session: &Session, kind: &Kind, filter: &Filter<'_>) -> Result<Vec<Value>> {
    let namespace = if filter.all_namespaces { None } else { Some(session.namespace().await?) };
    let (mut objects, mut next) = (Vec::new(), None::<String>);
    loop {
        let call = Call::get(kind.path(namespace, None))
            .maybe("labelSelector", filter.selectors.selector.as_deref())
            .maybe("fieldSelector", filter.selectors.field_selector.as_deref())
            .query("limit", CHUNK.to_string())
            .maybe("continue", next.as_deref());
        let mut answer = session.client().await?.send(call).await?;
        let more = answer["metadata"]["continue"].as_str().map(str::to_owned);
        if let Value::Array(items) = answer["items"].take() {
            objects.extend(items.into_iter().map(|item| with_kind(item, kind)));
        }
        match more {
            Some(token) if !token.is_empty() => next = Some(token),
            _ => return Ok(objects),
        }
    }
}

/// Members of lists do not say what they are; alone they should.
pub fn with_kind(mut object: Value, kind: &Kind) -> Value {
    if object["kind"].is_null() {
        object["kind"] = kind.kind.clone().into();
        object["apiVersion"] = kind.api_version().into();
    }
    object
}
