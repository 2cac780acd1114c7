//! Manifests: where `-f` reads from, the objects in them, and what a mistake in one looks like.

pub mod mistake;
mod remote;
pub mod yaml;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::flags::FileFlags;
use yaml::Document;

/// One object of a manifest.
#[derive(Debug, Clone)]
pub struct Item {
    pub object: Value,
    /// The file's name, or `STDIN`.
    pub source: String,
    /// Where its fields stand; none for the members of a `List`.
    pub places: Option<Arc<Written>>,
}

/// A document as it was written.
#[derive(Debug)]
pub struct Written {
    pub text: Arc<str>,
    pub document: Document,
}

impl Item {
    pub fn api_version(&self) -> &str {
        self.object["apiVersion"].as_str().unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }
}

/// All objects of the files named by flags, in order.
pub async fn read(flags: &FileFlags) -> Result<Vec<Item>> {
    if let Some(directory) = &flags.kustomize {
        let built = crate::kustomize::build(directory)?;
        let item = |object| Item { object, source: directory.clone(), places: None };
        return Ok(built.into_iter().map(item).collect());
    }
    let mut items = Vec::new();
    for name in &flags.filename {
        if remote::is_url(name) {
            items.extend(parse(name, &remote::fetch(name).await?)?);
            continue;
        }
        for (source, text) in texts(name, flags.recursive)? {
            items.extend(parse(&source, &text)?);
        }
    }
    Ok(items)
}

/// As [`read`], for commands that cannot do without an object.
pub async fn read_some(flags: &FileFlags, verb: &str) -> Result<Vec<Item>> {
    if !flags.is_set() {
        return Err(Error::plain(
            "must specify -f: a file, a directory, a URL, or - for standard input; or -k: a directory with a kustomization",
        ));
    }
    let items = read(flags).await?;
    if items.is_empty() {
        return Err(Error::plain(format!("no objects passed to {verb}")));
    }
    Ok(items)
}

/// Line and column of a field (`spec.list[0].name`) in the first document of a text.
pub fn place(text: &str, path: &str) -> Option<(usize, usize)> {
    let document = yaml::parse(text).ok()?.into_iter().next()?;
    document.places.get(path).map(|place| (place.line, place.column))
}

/// The objects of one text.
pub fn parse(source: &str, text: &str) -> Result<Vec<Item>> {
    let shared: Arc<str> = text.into();
    let documents = yaml::parse(text).map_err(|error| mistake::syntax(source, text, &error))?;
    let mut items = Vec::new();
    for document in documents {
        let list = document.value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        if let Some(members) = document.value["items"].as_array().filter(|_| list) {
            for member in members {
                items.push(Item { object: member.clone(), source: source.to_owned(), places: None });
            }
            continue;
        }
        let object = document.value.clone();
        let written = Written { text: Arc::clone(&shared), document };
        items.push(Item { object, source: source.to_owned(), places: Some(Arc::new(written)) });
    }
    for item in &items {
        check(item)?;
    }
    Ok(items)
}

/// What every object must have.
fn check(item: &Item) -> Result<()> {
    let wrong = |what: &str| {
        Error::plain(format!("error validating {:?}: error validating data: {what}", item.source))
    };
    if !item.object.is_object() {
        return Err(wrong("the document is not an object"));
    }
    if item.kind().is_empty() {
        return Err(wrong("kind not set"));
    }
    if item.api_version().is_empty() {
        return Err(wrong("apiVersion not set"));
    }
    mistake::unquoted_name(item).map_or(Ok(()), |what| Err(wrong(&what)))
}

/// Names and contents of what one `-f` means.
fn texts(name: &str, recursive: bool) -> Result<Vec<(String, String)>> {
    if name == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(vec![("STDIN".to_owned(), text)]);
    }
    let path = Path::new(name);
    let unreadable = |path: &Path, error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::plain(format!("the path {:?} does not exist", path.display().to_string()))
        }
        _ => Error::plain(format!("cannot read {}: {error}", path.display())),
    };
    let mut files = Vec::new();
    if path.is_dir() {
        collect(path, recursive, &mut files).map_err(|error| unreadable(path, error))?;
        if files.is_empty() {
            return Err(Error::plain(format!(
                "error reading [{name}]: recognized file extensions are [.json .yaml .yml]"
            )));
        }
    } else {
        files.push(path.to_owned());
    }
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).map_err(|error| unreadable(&file, error))?;
        Ok((file.display().to_string(), text))
    };
    files.into_iter().map(read).collect()
}

fn collect(directory: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            if recursive {
                collect(&entry, recursive, files)?;
            }
        } else if entry
            .extension()
            .is_some_and(|extension| ["json", "yaml", "yml"].iter().any(|e| extension == *e))
        {
            files.push(entry);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_taken_apart() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\napiVersion: v1\nkind: Secret\n";
        let kinds: Vec<String> =
            parse("x", text).unwrap().iter().map(|item| item.kind().to_owned()).collect();
        assert_eq!(kinds, ["Pod", "Secret"]);
    }

    #[test]
    fn objects_say_what_they_are() {
        let told = |text: &str| parse("x.yaml", text).unwrap_err().to_string();
        assert!(told("apiVersion: v1\n").contains("kind not set"));
        assert!(told("kind: Pod\n").contains("apiVersion not set"));
        assert!(told("- a\n").contains("not an object"));
    }

    #[tokio::test]
    async fn directories() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("below")).unwrap();
        for name in ["b.yaml", "a.json", "c.txt", "below/d.yml"] {
            std::fs::write(dir.path().join(name), "{apiVersion: v1, kind: Pod}").unwrap();
        }
        let count = async |recursive| {
            let filename = vec![dir.path().display().to_string()];
            read(&FileFlags { filename, recursive, kustomize: None }).await.unwrap().len()
        };
        assert_eq!((count(false).await, count(true).await), (2, 3));
    }
}
