//! Tells whether a document has changed, without writing it.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::{Definition, Resource};

/// Changes when a document about these resources changes: an ETag, or the hash in the v3 index.
pub fn fingerprint(resources: &[&Resource]) -> String {
    let mut hasher = DefaultHasher::new();
    // Built-in types change only with the program.
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    include_str!("merge_keys.txt").hash(&mut hasher);
    for resource in resources {
        (&resource.group, &resource.version, &resource.kind, &resource.plural).hash(&mut hasher);
        (resource.namespaced, &resource.verbs).hash(&mut hasher);
        for subresource in &resource.subresources {
            format!("{subresource:?}").hash(&mut hasher);
        }
        if let Definition::Custom(schema) = &resource.definition {
            schema.to_string().hash(&mut hasher);
        }
    }
    format!("{:016X}", hasher.finish())
}
