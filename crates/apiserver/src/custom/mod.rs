//! CustomResourceDefinitions: turns them into served resources and follows their lives.
//!
//! A loop watches the definitions. Whenever they change it rebuilds the custom part of the catalog, says in
//! their status what was accepted, and cleans up behind definitions that are being deleted. Instances go
//! through the same registry as everything else.

mod conversion;
mod definition;
mod kind;
mod ratcheting;
mod rules;
mod status;

use std::sync::Arc;
use std::time::Duration;

use minik8s_api::CUSTOM_RESOURCE_CLEANUP as CLEANUP;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use conversion::Conversion;
pub use definition::resources_of;
pub use ratcheting::{without_unchanged, without_unchanged_rules};
pub use rules::validate_rules;

use crate::api::Api;
use crate::catalog::Served;
use crate::error::Result;
use crate::following;
use crate::object::Object;
use crate::registry::{Call, DeleteOptions};

/// Between looks at instances that cannot go yet.
const LOOK: Duration = Duration::from_secs(1);

/// Follows the definitions until `stop`.
pub async fn run(api: Arc<Api>, stop: CancellationToken) {
    following::always("following custom resource definitions", stop, || follow(&api)).await;
}

/// Serves what is defined now.
pub async fn load(api: &Api) -> Result<()> {
    let served = definitions(api)?;
    let all = api.registry.all(&served, "").await?;
    publish(api, &all);
    Ok(())
}

async fn follow(api: &Arc<Api>) -> Result<()> {
    let served = definitions(api)?;
    loop {
        let revision = api.registry.store.revision().await?;
        let mut watch = api.registry.store.watch(&served.prefix, revision).await?;
        let all = api.registry.all(&served, "").await?;
        publish(api, &all);
        let mut waiting = false;
        for definition in &all {
            waiting |= settle(api, &served, &all, definition).await?;
        }
        // Instances with finalizers of their own go when their controllers let them.
        let timeout = if waiting { LOOK } else { Duration::MAX };
        tokio::select! {
            changed = following::changed(&mut watch) => if !changed? { return Ok(()) },
            _ = tokio::time::sleep(timeout) => {}
        }
    }
}

fn definitions(api: &Api) -> Result<Arc<Served>> {
    api.registry.built_in("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

/// Puts every accepted definition into the catalog; a terminating one is served until its instances are
/// gone, and lets no new ones in.
fn publish(api: &Api, all: &[Value]) {
    // A kind that the program has itself stays what it is: its definition is kept for those who look for it.
    let defines = |definition: &&Value| !is_built_in(api, definition);
    let accepted =
        all.iter().filter(defines).filter(|definition| status::conflict(definition, all).is_none());
    let resources = accepted.flat_map(|definition| {
        let mut resources = resources_of(definition);
        if definition.is_terminating() {
            resources.iter_mut().for_each(|resource| resource.verbs.retain(|verb| *verb != "create"));
        }
        let conversion = Conversion::of(definition).map(Arc::new);
        resources.into_iter().map(move |resource| Served::converted(resource, conversion.clone()))
    });
    api.registry.catalog.set_custom(resources.collect());
}

/// Whether the program serves this kind itself, whatever a definition says of it.
pub fn is_built_in(api: &Api, definition: &Value) -> bool {
    let spec = &definition["spec"];
    let [group, plural] =
        [&spec["group"], &spec["names"]["plural"]].map(|name| name.as_str().unwrap_or_default());
    api.registry.catalog.is_built_in(group, plural)
}

/// Writes the definition's status, or cleans up behind it; true if it must be looked at again.
async fn settle(api: &Arc<Api>, served: &Arc<Served>, all: &[Value], definition: &Value) -> Result<bool> {
    let name = definition.name();
    let mut call = Call::internal(served.clone(), "", name);
    if definition.is_terminating() {
        return clean_up(api, &mut call, definition).await;
    }
    call.subresource = "status".to_owned();
    let wanted = status::of(definition, all, call.now);
    if wanted != definition["status"] {
        let changed = api.registry.change(&call, |old| {
            let mut new = old.clone();
            new["status"] = status::of(old, all, call.now);
            Ok(new)
        });
        ignore_missing(changed.await.map(drop))?;
    }
    Ok(false)
}

async fn clean_up(api: &Arc<Api>, call: &mut Call, definition: &Value) -> Result<bool> {
    if !definition.finalizers().contains(&CLEANUP) {
        return Ok(false);
    }
    let snapshot = api.registry.catalog.snapshot();
    let is_built_in = is_built_in(api, definition);
    let (group, plural) = (&definition["spec"]["group"], &definition["spec"]["names"]["plural"]);
    let instances =
        snapshot.resources().iter().find(|s| *group == s.group.as_str() && *plural == s.plural.as_str());
    // Objects of a kind that is built in stay.
    if let Some(instances) = instances.filter(|_| !is_built_in) {
        // As they are stored: a webhook that is gone must not keep its kind from going.
        let instances = &Arc::new(Served::new(instances.resource().clone()));
        let on_instances = Call::internal(instances.clone(), "", "");
        let everything = crate::request::ListOptions::default();
        api.registry.delete_collection(&on_instances, &everything, &DeleteOptions::default()).await?;
        if !api.registry.all(instances, "").await?.is_empty() {
            return Ok(true);
        }
    }
    let released = api.registry.change(call, |old| {
        let mut new = old.clone();
        let kept: Vec<Value> =
            old.finalizers().into_iter().filter(|f| *f != CLEANUP).map(Value::from).collect();
        new.metadata_mut().insert("finalizers".into(), Value::Array(kept));
        Ok(new)
    });
    ignore_missing(released.await.map(drop))?;
    Ok(false)
}

fn ignore_missing(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.code != 404 => Err(error),
        _ => Ok(()),
    }
}
