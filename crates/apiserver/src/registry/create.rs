//! Creating objects.

use minik8s_store::{Commit, Condition, Op, Outcome};
use serde_json::Value;

use super::{Call, Registry, Written, metadata};
use crate::admission::{Operation, Request};
use crate::codec;
use crate::error::{ApiError, Result};
use crate::object::Object;

/// How often a commit is tried again when something it depends on changed meanwhile.
pub(super) const RETRIES: usize = 64;

/// How often before waiting for a turn.
const OPTIMISTIC_ATTEMPTS: usize = 3;

impl Registry {
    /// Stores a new object that came from [`Registry::decode_body`].
    pub async fn create(&self, call: &Call, object: Value) -> Result<Written> {
        let generated = object.name().is_empty();
        let mut turn = None;
        for attempt in 0..RETRIES {
            match self.try_create(call, object.clone()).await? {
                Created::Stored(written) => return Ok(*written),
                // A generated name that is taken is bad luck, not the user's mistake.
                Created::NameTaken(_) if generated && attempt < 8 => {}
                Created::NameTaken(name) => {
                    return Err(ApiError::already_exists(call.served.resource(), &name));
                }
                // Something that admission counted on (a quota, an address) changed: look again. Who was
                // overtaken often waits for a turn, or a crowd would keep each other from ever succeeding.
                Created::Overtaken if attempt >= OPTIMISTIC_ATTEMPTS && turn.is_none() => {
                    turn = Some(self.contended.lock().await);
                }
                Created::Overtaken => {}
            }
        }
        Err(ApiError::unavailable("too many concurrent changes; try again"))
    }

    /// Whoever brings the definition of a kind that is built in learns that it changes nothing.
    fn warn_of_built_in(&self, call: &Call, object: &Value) {
        if call.served.qualified() != "customresourcedefinitions.apiextensions.k8s.io" {
            return;
        }
        let spec = &object["spec"];
        let [group, plural] =
            [&spec["group"], &spec["names"]["plural"]].map(|name| name.as_str().unwrap_or_default());
        if self.catalog.is_built_in(group, plural) {
            let text = "is built in: the definition is kept, and the kind is served as before";
            call.warn(format!("{plural}.{group} {text}"));
        }
    }

    async fn try_create(&self, call: &Call, mut object: Value) -> Result<Created> {
        let served = &call.served;
        metadata::begin(call, &mut object)?;
        if !call.name.is_empty() && call.name != object.name() && !object.name().is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                object.name(),
                call.name
            )));
        }
        if served.has_status() && !served.strategy.keeps_status_on_create() {
            object.as_object_mut().map(|map| map.shift_remove("status"));
        }
        let mut also = Commit::default();
        let mut request = Request::new(call, Operation::Create, &mut object, None, &mut also);
        self.admission.admit(self, &mut request).await?;
        // After admission: what is computed from the object (a pod's QoS class) must see its defaults.
        served.strategy.prepare_create(&mut object);
        metadata::validate(call, &object, None)?;
        served.strategy.warnings(&object).into_iter().for_each(|text| call.warn(text));
        self.warn_of_built_in(call, &object);
        let mut request = Request::new(call, Operation::Create, &mut object, None, &mut also);
        self.admission.review(self, &mut request).await?;
        let managed = super::update::track_create(call, &mut object);

        let key = served.key(object.namespace(), object.name());
        if call.options.dry_run {
            let taken = self.store.get(&key).await?.is_some();
            return Ok(if taken {
                Created::NameTaken(object.name().to_owned())
            } else {
                Created::Stored(Box::new(Written { object, managed, stored: None, created: true }))
            });
        }
        let name = object.name().to_owned();
        let value = codec::encode_with(served, &object, managed.as_deref())?;
        let value = self.to_stored(served, value).await?;
        also.conditions.insert(0, Condition { key: key.clone(), revision: 0 });
        also.ops.insert(0, Op::Put { key: key.clone(), value: value.clone() });
        match self.store.commit(also).await? {
            Outcome::Committed(revision) => {
                object.metadata_mut().insert("resourceVersion".into(), revision.to_string().into());
                let stored = Some((value, revision));
                Ok(Created::Stored(Box::new(Written { object, managed, stored, created: true })))
            }
            Outcome::Conflict(conflict) if conflict.key == key => Ok(Created::NameTaken(name)),
            Outcome::Conflict(_) => Ok(Created::Overtaken),
        }
    }
}

enum Created {
    Stored(Box<Written>),
    NameTaken(String),
    Overtaken,
}
