//! Removes what nobody needs: repositories of namespaces that are gone, and blobs that no manifest names.
//!
//! A blob waits for its manifest as long as its repository has an upload, and a while after it was pushed or asked for
//! last. A manifest stays until somebody deletes it, with or without a tag: pods may name it by its digest.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use minik8s_datadir::remove_tree;

use super::{Repository, Store, file};
use crate::digest::Digest;
use crate::error::{ErrorCode, RegistryError, Result};

impl Store {
    /// How many bytes were given back. `namespaces` are the UIDs of all that exist.
    pub fn collect(&self, namespaces: &BTreeSet<String>) -> Result<u64> {
        self.abandon_idle();
        let _alone = self.changes.write();
        let spaces = self.root.join("repositories");
        let mut held = BTreeSet::new();
        for namespace in file::names(&spaces)? {
            if !namespaces.contains(&namespace) {
                let kept =
                    |error| RegistryError::new(ErrorCode::Unavailable, format!("{namespace}: {error}"));
                remove_tree(&spaces, &namespace).map_err(kept)?;
                continue;
            }
            for repository in self.repositories(&namespace)? {
                held.extend(self.drop_links(&repository)?);
            }
        }
        self.drop_blobs(&held)
    }

    /// The blobs that the repository goes on to hold.
    fn drop_links(&self, repository: &Repository) -> Result<BTreeSet<Digest>> {
        let folder = self.folder(repository)?;
        let named = self.named_blobs(repository)?;
        let has_upload = self.has_upload(repository);
        let mut held = BTreeSet::new();
        for digest in file::names(&folder.join("blobs"))?.iter().filter_map(|hex| Digest::from_hex(hex)) {
            let link = folder.join("blobs").join(digest.hex());
            if named.contains_key(&digest) || has_upload || !self.is_old(&link)? {
                held.insert(digest);
            } else {
                file::remove(&link)?;
            }
        }
        if held.is_empty() && !has_upload && named.is_empty() {
            // Only as far as they are empty: an index without parts may be left.
            for part in ["blobs", "tags", "manifests", ""] {
                let _ = fs::remove_dir(folder.join(part));
            }
        }
        Ok(held)
    }

    fn is_old(&self, link: &Path) -> Result<bool> {
        let modified = fs::metadata(link)?.modified()?;
        // A clock that was set back makes nothing old.
        Ok(SystemTime::now().duration_since(modified).is_ok_and(|age| age >= self.limits.grace))
    }

    fn drop_blobs(&self, held: &BTreeSet<Digest>) -> Result<u64> {
        let mut freed = 0;
        for hex in file::names(&self.root.join("blobs"))? {
            let is_held = Digest::from_hex(&hex).is_some_and(|digest| held.contains(&digest));
            if !is_held {
                let path = self.root.join("blobs").join(&hex);
                freed += fs::metadata(&path)?.len();
                file::remove(&path)?;
            }
        }
        Ok(freed)
    }
}
