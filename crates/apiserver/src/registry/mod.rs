//! One generic registry for every kind, built-in and custom: reading, writing and watching objects.
//!
//! A write is: decode → schema check → defaults → admission → validation → one atomic commit. The registry
//! knows no kind by name; what a kind does differently stands in its `Strategy` and in admission.

mod body;
mod conversion;
mod create;
mod delete;
mod list;
mod metadata;
mod patch;
mod rewrite;
mod table;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use minik8s_auth::User;
use minik8s_patch::managed::{self, Manager};
use minik8s_store::{Entry, Revision, Store};
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub use body::{MAX_BODY, parse as parse_any, read_yaml};
pub use delete::DeleteOptions;
pub use list::{ListBody, protobuf_list};
pub use metadata::{random_suffix, timestamp};
pub use patch::{PatchKind, parse_patch, patch_error};
pub use table::{cells_of, columns_of};
pub use watch::{Framing, refused_watch};

use crate::admission::Chain;
use crate::audit::Trail;
use crate::catalog::{Catalog, Served};
use crate::codec;
use crate::error::{ApiError, Result};
use crate::request::WriteOptions;

/// The objects of the cluster.
pub struct Registry {
    pub store: Arc<dyn Store>,
    pub catalog: Arc<Catalog>,
    pub admission: Chain,
    /// Held by creates that others keep overtaking, one at a time.
    pub contended: tokio::sync::Mutex<()>,
    /// Watches end when the server stops.
    pub stopping: CancellationToken,
}

/// One request against one resource.
pub struct Call {
    pub served: Arc<Served>,
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    pub subresource: String,
    pub user: User,
    pub options: WriteOptions,
    pub now: Timestamp,
    /// A server-side apply, which has written `managedFields` itself.
    pub applies: bool,
    /// Texts for the `Warning` header.
    pub warnings: Arc<Mutex<Vec<String>>>,
    /// Of the request in the audit log, if there is one.
    pub trail: Option<Trail>,
}

impl Call {
    /// A write by the server itself. It leaves no trace in `managedFields`.
    pub fn internal(served: Arc<Served>, namespace: &str, name: &str) -> Call {
        Call {
            served,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            user: User::authenticated("system:apiserver", &["system:masters"]),
            options: WriteOptions::default(),
            now: Timestamp::now(),
            applies: false,
            warnings: Arc::default(),
            trail: None,
        }
    }

    pub fn warn(&self, text: impl Into<String>) {
        let (text, mut warnings) = (text.into(), self.warnings.lock());
        // A write that is tried again finds the same faults again.
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Adds to the annotations of the request in the audit log.
    pub fn annotate(&self, key: &str, value: impl Into<String>) {
        if let Some(trail) = &self.trail {
            trail.annotate(key, value);
        }
    }

    /// Whether the audit log also tells of what is in the request.
    pub fn tells_bodies(&self) -> bool {
        self.trail.as_ref().is_some_and(Trail::tells_bodies)
    }

    /// What somebody configured to be audited: without an audit log, it is a line in the server's log.
    pub fn audit(&self, name: &str, key: &str, value: impl Into<String>) {
        if let Some(trail) = &self.trail {
            return trail.annotate(key, value);
        }
        let value: String = value.into();
        tracing::info!(
            target: "audit",
            user = self.user.name,
            resource = self.served.qualified(),
            namespace = self.namespace,
            name,
            key,
            value,
            "to be audited"
        );
    }

    /// Who writes, for `managedFields`.
    pub fn manager(&self) -> Manager {
        let (name, version) = (&self.options.field_manager, &self.served.api_version);
        match self.subresource.as_str() {
            "" => Manager::main(name, version, self.served.has_status()),
            subresource => Manager::subresource(name, version, subresource),
        }
    }

    pub fn key(&self) -> String {
        self.served.key(&self.namespace, &self.name)
    }

    /// The same request for another object of the same resource.
    pub fn on(&self, namespace: &str, name: &str) -> Call {
        Call {
            served: self.served.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: self.subresource.clone(),
            user: self.user.clone(),
            options: self.options.clone(),
            now: self.now,
            applies: self.applies,
            warnings: self.warnings.clone(),
            trail: self.trail.clone(),
        }
    }
}

/// An object as a write left it.
pub struct Written {
    /// Without `managedFields`.
    pub object: Value,
    pub managed: Option<Box<RawValue>>,
    /// What the store holds of it, and since when; None if nothing was stored.
    pub stored: Option<(Bytes, Revision)>,
    pub created: bool,
}

impl Written {
    /// The whole object.
    pub fn into_object(self) -> Value {
        let mut object = self.object;
        if let Some(fields) = self.managed {
            managed::set_managed_fields(&mut object, serde_json::from_str(fields.get()).ok());
        }
        object
    }
}

impl Registry {
    pub async fn entry(&self, served: &Served, namespace: &str, name: &str) -> Result<Entry> {
        let entry = self.store.get(&served.key(namespace, name)).await?;
        let entry = entry.ok_or_else(|| ApiError::not_found(served.resource(), name))?;
        if served.conversion.is_none() {
            return Ok(entry);
        }
        let converted = self.to_served(served, vec![entry]).await?.into_iter().next();
        converted.ok_or_else(|| ApiError::not_found(served.resource(), name))
    }

    pub async fn get(&self, served: &Served, namespace: &str, name: &str) -> Result<Value> {
        codec::decode(served, &self.entry(served, namespace, name).await?)
    }

    /// As [`Registry::get`], for internal use: without `managedFields`.
    pub async fn look(&self, served: &Served, namespace: &str, name: &str) -> Result<Value> {
        let entry = self.entry(served, namespace, name).await?;
        codec::decode_split(served, &entry).map(|split| split.object)
    }

    /// The object's JSON, not parsed where the stored form is the served one.
    pub async fn get_json(&self, served: &Served, namespace: &str, name: &str) -> Result<Bytes> {
        let entry = self.entry(served, namespace, name).await?;
        let mut out = Vec::new();
        codec::write_object(served, &entry.value, entry.revision, &mut out)?;
        Ok(out.into())
    }

    /// All objects of a resource, for internal use: without `managedFields`. An empty namespace is all of them.
    pub async fn all(&self, served: &Served, namespace: &str) -> Result<Vec<Value>> {
        let (entries, _) = self.entries_in(served, namespace).await?;
        let decode = |entry| codec::decode_split(served, entry).map(|split| split.object);
        entries.iter().map(decode).collect()
    }

    /// All entries of a resource in the version that is served, and the snapshot that they are of.
    pub async fn entries(&self, served: &Served) -> Result<(Vec<Entry>, Revision)> {
        self.entries_in(served, "").await
    }

    async fn entries_in(&self, served: &Served, namespace: &str) -> Result<(Vec<Entry>, Revision)> {
        let range = minik8s_store::Range { prefix: served.keys_in(namespace), ..Default::default() };
        let page = self.store.range(range).await?;
        Ok((self.to_served(served, page.entries).await?, page.revision))
    }

    /// A built-in resource that code refers to by name.
    pub fn built_in(&self, group: &str, version: &str, plural: &str) -> Result<Arc<Served>> {
        let snapshot = self.catalog.snapshot();
        let found = snapshot.find(group, version, plural).cloned();
        found.ok_or_else(|| ApiError::internal(format_args!("{group}/{version} {plural} is not served")))
    }
}
