//! What is in the store when a page is asked for: every object that the role looks at, none of them parsed yet.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use minik8s_api::{ReadError, Stored, StoredObject};
use serde_json::Value;

use super::objects::Kind;

/// By kind. A kind that was not read has no objects.
#[derive(Debug, Default)]
pub struct Lists(Vec<(Kind, Stored)>);

impl Lists {
    pub fn put(&mut self, kind: Kind, stored: Stored) {
        self.0.push((kind, stored));
    }

    pub fn of(&self, kind: Kind) -> &[StoredObject] {
        self.0.iter().find(|(known, _)| *known == kind).map_or(&[], |(_, stored)| &stored.objects)
    }

    /// The snapshot that each kind was read at, in the order in which they were put.
    pub fn revisions(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(_, stored)| stored.revision)
    }
}

/// An object that another one names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub kind: Kind,
    /// As [`StoredObject::path`] gives it.
    pub path: String,
}

impl Reference {
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Reference { kind, path: format!("{namespace}/{name}") }
    }
}

/// Objects by what others call them; each is parsed once, when the first needs it.
pub struct Related<'a> {
    stored: HashMap<(Kind, &'a str), &'a StoredObject>,
    parsed: RefCell<HashMap<(Kind, &'a str), Rc<Value>>>,
}

impl<'a> Related<'a> {
    pub fn new(lists: &'a Lists, kinds: &[Kind]) -> Self {
        let of = |kind: Kind| lists.of(kind).iter().map(move |object| ((kind, object.path()), object));
        Related { stored: kinds.iter().copied().flat_map(of).collect(), parsed: RefCell::default() }
    }

    /// None where there is no such object.
    pub fn version(&self, reference: &Reference) -> Option<u64> {
        self.stored.get(&(reference.kind, reference.path.as_str())).map(|object| object.version)
    }

    pub fn parse(&self, reference: &Reference) -> Result<Option<Rc<Value>>, ReadError> {
        let Some(object) = self.stored.get(&(reference.kind, reference.path.as_str())) else {
            return Ok(None);
        };
        let place = (reference.kind, object.path());
        if let Some(known) = self.parsed.borrow().get(&place) {
            return Ok(Some(known.clone()));
        }
        let value = Rc::new(object.parse()?);
        self.parsed.borrow_mut().insert(place, value.clone());
        Ok(Some(value))
    }
}
