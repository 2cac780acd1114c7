//! The targets of one role as they were last written, one piece per object: a page is put together from these, and only
//! what has another `resourceVersion` than then is parsed and written anew. A piece of endpoints depends on the Service
//! and the pods that they name as well, those included that were not there.
//!
//! It never answers from memory alone: what exists is what the lists say, which are read for each request. So a page is
//! always the one that [`Role::page`] would make of the same objects, whatever was asked before, in whatever order.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use minik8s_api::{ReadError, StoredObject};
use serde_json::{Map, Value};

use super::lists::{Lists, Reference, Related};
use super::objects::{Kind, Objects};
use super::role::Role;
use super::selection::Selection;
use super::target::text;

/// So much is kept of a role, about 20,000 pods; what does not fit is written for each page.
const MAX_KEPT: usize = 64 << 20;

/// The pieces of one role.
#[derive(Debug, Default)]
pub struct Rendered {
    pieces: HashMap<Arc<str>, Piece>,
    kept: usize,
    /// The snapshots of the last page.
    revisions: Vec<u64>,
    random: RandomState,
}

/// What is written of one object.
#[derive(Debug)]
struct Piece {
    version: u64,
    needs: Vec<(Reference, Option<u64>)>,
    labels: Option<Map<String, Value>>,
    /// Targets with commas between them, without brackets.
    json: Box<[u8]>,
    digest: u64,
}

/// A page, and what tells it from others.
#[derive(Debug)]
pub struct Page {
    pub json: Vec<u8>,
    /// Of this process: an `ETag`.
    pub tag: String,
    /// How many objects were written for it.
    pub written: usize,
}

impl Rendered {
    pub fn page(&mut self, role: Role, lists: &Lists, selection: &Selection) -> Result<Page, ReadError> {
        self.forget_if_rolled_back(lists);
        let related = Related::new(lists, &role.needs()[1..]);
        let mut known = std::mem::take(&mut self.pieces);
        self.kept = 0;
        let mut page = vec![b'['];
        let (mut written, mut tag) = (0, self.random.build_hasher());
        for object in lists.of(role.needs()[0]) {
            let piece = known.remove(object.key()).filter(|piece| piece.is_current(object, &related));
            if !selection.takes_namespace(object.namespace()) {
                // Somebody else may ask for it.
                piece.into_iter().for_each(|piece| self.keep(object, piece));
                continue;
            }
            let piece = match piece {
                Some(piece) => piece,
                None => {
                    written += 1;
                    self.write(role, object, &related)?
                }
            };
            if selection.takes_labels(piece.labels.as_ref()) {
                piece.digest.hash(&mut tag);
                if page.len() > 1 && !piece.json.is_empty() {
                    page.push(b',');
                }
                page.extend_from_slice(&piece.json);
            }
            self.keep(object, piece);
        }
        page.push(b']');
        Ok(Page { json: page, tag: format!("\"{:016x}\"", tag.finish()), written })
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        (self.pieces, self.kept) = (HashMap::new(), 0);
    }

    /// Bytes of the pieces that are kept.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// A store that was taken back to an older state may give the same version again to another object.
    fn forget_if_rolled_back(&mut self, lists: &Lists) {
        let revisions: Vec<u64> = lists.revisions().collect();
        if self.revisions.iter().zip(&revisions).any(|(before, now)| now < before) {
            self.clear();
        }
        self.revisions = revisions;
    }

    fn keep(&mut self, object: &StoredObject, piece: Piece) {
        let size = piece.size();
        if self.kept + size <= MAX_KEPT {
            self.kept += size;
            self.pieces.insert(object.key().clone(), piece);
        }
    }

    fn write(&self, role: Role, object: &StoredObject, related: &Related<'_>) -> Result<Piece, ReadError> {
        let value = object.parse()?;
        let references: BTreeSet<Reference> = role.references(&value).into_iter().collect();
        let mut found = Vec::new();
        for reference in &references {
            found.extend(related.parse(reference)?.map(|value| (reference.kind, value)));
        }
        let json = json_of(role, &value, &found);
        let needs: Vec<_> = references
            .into_iter()
            .map(|reference| {
                let version = related.version(&reference);
                (reference, version)
            })
            .collect();
        Ok(Piece {
            version: object.version,
            labels: value["metadata"]["labels"].as_object().cloned(),
            digest: self.random.hash_one((object.path(), object.version, &needs)),
            needs,
            json,
        })
    }
}

impl Piece {
    /// About what it takes in memory.
    fn size(&self) -> usize {
        let labels = self.labels.iter().flatten().map(|(name, value)| name.len() + 96 + text(value).len());
        let needs =
            self.needs.iter().map(|(reference, _)| reference.path.len() + size_of::<Reference>() + 24);
        self.json.len() + size_of::<Piece>() + labels.chain(needs).sum::<usize>()
    }

    fn is_current(&self, object: &StoredObject, related: &Related<'_>) -> bool {
        self.version == object.version
            && self.needs.iter().all(|(reference, version)| related.version(reference) == *version)
    }
}

/// The page of this object alone, without its brackets.
fn json_of(role: Role, object: &Value, related: &[(Kind, Rc<Value>)]) -> Box<[u8]> {
    let targets = role.targets_of(object, &|kind| {
        let of_kind = related.iter().filter(move |(known, _)| *known == kind);
        of_kind.map(|(_, value)| Objects::named(value)).collect()
    });
    let json = serde_json::to_vec(&targets).unwrap_or_default();
    match json.as_slice() {
        [b'[', inner @ .., b']'] => inner.into(),
        _ => Box::default(),
    }
}
