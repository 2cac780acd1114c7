//! Versions of a template as ControllerRevisions, for DaemonSets and StatefulSets: what `kubectl rollout
//! history` lists and `undo` goes back to.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use minik8s_runtime::{Action, Caches, Key, Object, Plan, Selector, owner_reference};
use serde_json::{Value, json};

use crate::claim::{Candidates, claim};
use crate::hash::short_hash;

/// On pods: the revision they were made from.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// The revisions an owner has or could adopt, and whoever stands in the way of the next one.
pub struct Revisions {
    candidates: Candidates<ControllerRevision>,
    /// The revision that has the name which one of the current template would get.
    name_holder: Option<Arc<ControllerRevision>>,
}

impl Revisions {
    pub fn of<O: Object>(
        caches: &Caches,
        owner: &O,
        selector: &Selector,
        template: &PodTemplateSpec,
        collisions: i32,
    ) -> Self {
        let cache = caches.of::<ControllerRevision>();
        let next = Key::new(
            owner.meta().namespace.as_deref().unwrap_or(""),
            revision_name(owner, &short_hash(&data(template), collisions)),
        );
        let candidates = Candidates::of(&cache, owner, selector);
        Revisions { candidates, name_holder: cache.get(&next) }
    }
}

/// The revisions of one owner.
pub struct History {
    /// By revision number, oldest first.
    all: Vec<Arc<ControllerRevision>>,
    /// That of the current template; None while it is being written down.
    current: Option<Arc<ControllerRevision>>,
    /// The name of the next revision belongs to another: the owner must count a collision.
    pub has_collided: bool,
}

impl History {
    /// Finds the revision of the current template. If it is not there, or not the newest, `plan` makes it
    /// so.
    pub fn new<O: Object>(
        owner: &O,
        selector: &Selector,
        template: &PodTemplateSpec,
        hash_label: &str,
        collisions: i32,
        seen: &Revisions,
        plan: &mut Plan,
    ) -> Self {
        let claimed = claim(owner, selector, &seen.candidates);
        plan.actions.extend(claimed.actions);
        let mut all = claimed.mine;
        all.sort_by_key(|revision| (number(revision), revision.metadata.name.clone()));
        let data = data(template);
        // An older program wrote less of what means nothing.
        let is_current = |revision: &&Arc<ControllerRevision>| {
            revision.data.0 == data || completed(revision.data.0.clone()) == data
        };
        let current = all.iter().rev().find(is_current).cloned();
        let newest = all.last().map_or(0, |revision| number(revision));
        let mut has_collided = false;
        match &current {
            None if seen.name_holder.is_some() => has_collided = true,
            None => {
                let hash = short_hash(&data, collisions);
                plan.act(Action::create(&revision(owner, template, data, hash_label, &hash, newest + 1)));
            }
            // An old template came back: it is the newest now.
            Some(found) if number(found) < newest => {
                plan.act(Action::patch(&**found, json!({"revision": newest + 1})));
            }
            Some(_) => {}
        }
        History { all, current, has_collided }
    }

    pub fn current(&self) -> Option<&Arc<ControllerRevision>> {
        self.current.as_ref()
    }

    pub fn by_name(&self, name: &str) -> Option<&Arc<ControllerRevision>> {
        self.all.iter().find(|revision| revision.metadata.name.as_deref() == Some(name))
    }

    /// Deletes the oldest that nobody uses, beyond `limit`.
    pub fn truncate(&self, limit: i32, is_used: impl Fn(&ControllerRevision) -> bool, plan: &mut Plan) {
        let limit = usize::try_from(limit).unwrap_or(0);
        let is_current = |r: &ControllerRevision| {
            self.current.as_ref().is_some_and(|current| current.metadata.name == r.metadata.name)
        };
        let spare: Vec<_> = self.all.iter().filter(|r| !is_current(r) && !is_used(r)).collect();
        for revision in spare.iter().take(spare.len().saturating_sub(limit)) {
            plan.act(Action::delete(&***revision));
        }
    }
}

/// The template that a revision holds.
pub fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.0["spec"]["template"].clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

pub fn name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or("")
}

fn revision_name<O: Object>(owner: &O, hash: &str) -> String {
    format!("{}-{hash}", owner.meta().name.as_deref().unwrap_or(""))
}

fn number(revision: &ControllerRevision) -> i64 {
    revision.revision.unwrap_or(0)
}

/// A strategic merge patch that sets the template as a whole: `kubectl rollout undo` sends it as it is. Clients
/// compare it byte by byte with one that they make themselves, so its keys stand in Go's order.
fn data(template: &PodTemplateSpec) -> Value {
    let mut template = json!(template);
    template["$patch"] = json!("replace");
    sorted(completed(json!({"spec": {"template": template}})))
}

/// With what Go writes also where nothing is said: its structs are never left out.
fn completed(mut data: Value) -> Value {
    let template = data.pointer_mut("/spec/template").and_then(Value::as_object_mut);
    let Some(template) = template else { return data };
    template.entry("metadata").or_insert_with(|| json!({}));
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { return data };
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            container.entry("resources").or_insert_with(|| json!({}));
        }
    }
    data
}

/// The value with the keys of all its objects sorted.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(fields.into_iter().map(|(name, value)| (name, sorted(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        scalar => scalar,
    }
}

fn revision<O: Object>(
    owner: &O,
    template: &PodTemplateSpec,
    data: Value,
    hash_label: &str,
    hash: &str,
    number: i64,
) -> ControllerRevision {
    let mut labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    labels.insert(hash_label.to_owned(), hash.to_owned());
    // `kubectl rollout history` shows the change cause.
    let mut annotations = owner.meta().annotations.clone().unwrap_or_default();
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(revision_name(owner, hash)),
            namespace: owner.meta().namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|a| !a.is_empty()),
            owner_references: Some(vec![owner_reference(owner)]),
            ..ObjectMeta::default()
        },
        data: RawExtension(data),
        revision: Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_data_is_written_as_go_writes_it() {
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "spec": {"restartPolicy": "Always", "containers": [{
                "name": "a", "image": "i", "env": [{"value": "1", "name": "B"}],
            }], "nodeSelector": {"b": "1", "a": "2"}},
            "metadata": {"labels": {"b": "1", "a": "2"}},
        }))
        .unwrap();
        assert_eq!(
            data(&template).to_string(),
            concat!(
                r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"2","b":"1"}},"#,
                r#""spec":{"containers":[{"env":[{"name":"B","value":"1"}],"image":"i","name":"a","resources":{}}],"#,
                r#""nodeSelector":{"a":"2","b":"1"},"restartPolicy":"Always"}}}}"#,
            )
        );
    }

    #[test]
    fn revision_of_an_older_program_is_recognised() {
        let template: PodTemplateSpec =
            serde_json::from_value(json!({"spec": {"containers": [{"name": "a"}]}})).unwrap();
        let old =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "a"}]}, "$patch": "replace"}}});
        assert_ne!(old, data(&template));
        assert_eq!(completed(old), data(&template));
        for odd in [
            json!(null),
            json!(5),
            json!({"spec": 1}),
            json!({"spec": {"template": {"spec": {"containers": 1}}}}),
        ] {
            completed(odd);
        }
    }
}
