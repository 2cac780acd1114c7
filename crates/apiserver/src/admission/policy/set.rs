//! The policies of one kind with their bindings, kept current by watching the store.

use std::collections::HashMap;
use std::sync::Arc;

use minik8s_store::{Entry, Revision, Store};
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::definition::{Binding, Definition};
use crate::admission::followed;
use crate::error::Result;

/// A kind of policy, as it is stored.
pub trait Policy: Sized + Send + Sync + 'static {
    type Spec: DeserializeOwned;
    type BindingSpec: DeserializeOwned;
    /// Below which policies are stored.
    const PREFIX: &'static str;
    /// Below which their bindings are stored.
    const BINDING_PREFIX: &'static str;

    fn compile(name: &str, spec: Self::Spec) -> std::result::Result<Self, String>;
    fn bind(name: &str, spec: Self::BindingSpec) -> std::result::Result<Binding, String>;
    fn definition(&self) -> &Definition;
}

/// A policy with its bindings; without any it says nothing and is not here.
pub struct Bound<P> {
    pub policy: Arc<P>,
    pub bindings: Vec<Arc<Binding>>,
}

/// By their names.
pub struct Set<P> {
    parts: Mutex<Parts<P>>,
    bound: RwLock<Arc<Vec<Bound<P>>>>,
}

struct Parts<P> {
    /// With the revision that it was compiled from: what has not changed is not compiled again.
    policies: Vec<(Revision, Arc<P>)>,
    bindings: Vec<Arc<Binding>>,
}

impl<P> Default for Set<P> {
    fn default() -> Self {
        let parts = Parts { policies: Vec::new(), bindings: Vec::new() };
        Set { parts: Mutex::new(parts), bound: RwLock::default() }
    }
}

impl<P: Policy> Set<P> {
    pub fn bound(&self) -> Arc<Vec<Bound<P>>> {
        self.bound.read().clone()
    }

    pub fn is_empty(&self) -> bool {
        self.bound.read().is_empty()
    }

    /// Reads all of them, so that the first write is judged rightly.
    pub async fn load(&self, store: &dyn Store) -> Result<()> {
        followed::load(store, P::PREFIX, &|entries| self.take_policies(entries)).await?;
        followed::load(store, P::BINDING_PREFIX, &|entries| self.take_bindings(entries)).await?;
        Ok(())
    }

    /// Follows them for ever.
    pub async fn follow(&self, store: &dyn Store) {
        let policies = |entries: &[Entry]| self.take_policies(entries);
        let bindings = |entries: &[Entry]| self.take_bindings(entries);
        tokio::join!(
            followed::follow(store, P::PREFIX, &policies),
            followed::follow(store, P::BINDING_PREFIX, &bindings),
        );
    }

    fn take_policies(&self, entries: &[Entry]) {
        let mut parts = self.parts.lock();
        let known: HashMap<&str, &(Revision, Arc<P>)> =
            parts.policies.iter().map(|known| (known.1.definition().name.as_str(), known)).collect();
        let policies = entries.iter().filter_map(|entry| {
            let name = entry.key.strip_prefix(P::PREFIX).unwrap_or_default();
            let policy = match known.get(name) {
                Some((revision, policy)) if *revision == entry.revision => policy.clone(),
                _ => Arc::new(read(P::PREFIX, entry, P::compile)?),
            };
            Some((entry.revision, policy))
        });
        parts.policies = policies.collect();
        self.publish(&parts);
    }

    fn take_bindings(&self, entries: &[Entry]) {
        let mut parts = self.parts.lock();
        let bindings = entries.iter().filter_map(|entry| read(P::BINDING_PREFIX, entry, P::bind));
        parts.bindings = bindings.map(Arc::new).collect();
        self.publish(&parts);
    }

    fn publish(&self, parts: &Parts<P>) {
        let bound = parts.policies.iter().map(|(_, policy)| {
            let name = &policy.definition().name;
            let bindings = parts.bindings.iter().filter(|binding| binding.policy == *name);
            Bound { policy: policy.clone(), bindings: bindings.cloned().collect() }
        });
        *self.bound.write() = Arc::new(bound.filter(|bound| !bound.bindings.is_empty()).collect());
    }
}

/// The part of a stored object that matters here.
#[derive(Deserialize)]
struct Stored<S> {
    spec: S,
}

fn read<S: DeserializeOwned, T>(
    prefix: &str,
    entry: &Entry,
    make: impl Fn(&str, S) -> std::result::Result<T, String>,
) -> Option<T> {
    let name = entry.key.strip_prefix(prefix).unwrap_or_default();
    let stored = serde_json::from_slice::<Stored<S>>(&entry.value).map_err(|error| error.to_string());
    let made = stored.and_then(|stored| make(name, stored.spec));
    made.inspect_err(|why| tracing::error!(name, why, "an admission policy cannot be read and does not act"))
        .ok()
}
