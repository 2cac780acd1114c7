//! `apply --prune`: what was applied with the same labels before and is no longer in the files is deleted.

use serde_json::Value;

use super::delete::{DeletionFlags, delete_one};
use crate::discovery::{Discovery, Kind};
use crate::error::{Error, Result};
use crate::flags::{DryRun, SelectorFlags};
use crate::output;
use crate::select::{self, Filter, Target};
use crate::session::Session;

const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What kubectl prunes unless it is told otherwise: group and plural.
const USUAL: [(&str, &str); 16] = [
    ("", "configmaps"),
    ("", "endpoints"),
    ("", "namespaces"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "secrets"),
    ("", "services"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
    ("networking.k8s.io", "ingresses"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
];

/// What is pruned, and what is spared.
pub struct Pruning<'a> {
    pub selectors: &'a SelectorFlags,
    pub all: bool,
    /// `group/version/Kind` each; none for the usual ones.
    pub allow: &'a [String],
    pub manager: &'a str,
    pub dry_run: DryRun,
}

impl Pruning<'_> {
    pub fn check(&self) -> Result<()> {
        match (self.all, self.selectors.is_set()) {
            (false, false) => Err(Error::plain(
                "all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. \
                 If you did not mean to prune all resources, specify a label selector",
            )),
            (true, true) => Err(Error::plain("cannot set --all and --selector at the same time")),
            _ => Ok(()),
        }
    }

    /// Deletes what is left over, in the namespaces of what was applied.
    pub async fn run(&self, session: &Session, applied: &[Target], how: &DeletionFlags) -> Result<()> {
        let discovery = session.discovery().await?;
        let mut namespaces: Vec<&str> =
            applied.iter().filter_map(|target| target.namespace.as_deref()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let options = how.options(self.dry_run)?;
        for kind in self.kinds(&discovery)? {
            for target in self.left_over(session, &kind, &namespaces, applied).await? {
                match delete_one(session, &target, &options, self.dry_run).await {
                    Err(error) if error.is_not_found() => continue,
                    other => drop(other?),
                }
                output::line(format_args!("{} pruned{}", target.shown(), self.dry_run.suffix()));
            }
        }
        Ok(())
    }

    fn kinds(&self, discovery: &Discovery) -> Result<Vec<Kind>> {
        if self.allow.is_empty() {
            let usual = |kind: &&Kind| USUAL.contains(&(kind.group.as_str(), kind.plural.as_str()));
            // Objects in namespaces first: a namespace takes its objects along.
            let mut kinds: Vec<Kind> = discovery.preferred().into_iter().filter(usual).cloned().collect();
            kinds.sort_by_key(|kind| !kind.namespaced);
            return Ok(kinds);
        }
        let find = |word: &String| {
            let parts: Vec<&str> = word.split('/').collect();
            let [group, version, name] = parts[..] else {
                let told =
                    format!("invalid GroupVersionKind format: {word}, please follow <group/version/kind>");
                return Err(Error::plain(told));
            };
            let group = if group == "core" { "" } else { group };
            let all = discovery.preferred();
            let fits = |kind: &&&Kind| kind.group == group && kind.version == version && kind.kind == name;
            all.iter().find(fits).map(|kind| (*kind).clone()).ok_or_else(|| {
                Error::plain(format!("no matches for kind {name:?} in version \"{group}/{version}\""))
            })
        };
        self.allow.iter().map(find).collect()
    }

    async fn left_over(
        &self,
        session: &Session,
        kind: &Kind,
        namespaces: &[&str],
        applied: &[Target],
    ) -> Result<Vec<Target>> {
        let filter = Filter { selectors: self.selectors.clone(), all_namespaces: true, ..Filter::default() };
        let objects = select::list(session, kind, &filter).await?;
        let targets = objects.into_iter().map(|object| Target::new(kind.clone(), object));
        Ok(targets
            .filter(|target| target.namespace.as_deref().is_none_or(|own| namespaces.contains(&own)))
            .filter(|target| was_applied(&target.object, self.manager))
            .filter(|target| target.object["metadata"]["deletionTimestamp"].is_null())
            .filter(|target| !applied.iter().any(|one| is_same(one, target)))
            .collect())
    }
}

/// By `apply` of kubectl or of this program; what others made is nobody's to prune.
fn was_applied(object: &Value, manager: &str) -> bool {
    let metadata = &object["metadata"];
    let managers = metadata["managedFields"].as_array().into_iter().flatten();
    metadata["annotations"][APPLIED].is_string()
        || managers.into_iter().any(|one| one["operation"] == "Apply" && one["manager"] == manager)
}

fn is_same(a: &Target, b: &Target) -> bool {
    (&a.kind.group, &a.kind.kind, &a.namespace, &a.name)
        == (&b.kind.group, &b.kind.kind, &b.namespace, &b.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_applied_is_pruned() {
        let by = |manager: &str, operation: &str| json!({"metadata": {"managedFields": [{"manager": manager, "operation": operation}]}});
        assert!(was_applied(&by("kubectl", "Apply"), "kubectl"));
        assert!(!was_applied(&by("kubectl", "Update"), "kubectl"));
        assert!(!was_applied(&by("operator", "Apply"), "kubectl"));
        assert!(was_applied(&json!({"metadata": {"annotations": {APPLIED: "{}"}}}), "kubectl"));
        let pruning = |all: bool, selector: Option<&str>| {
            let selectors = SelectorFlags { selector: selector.map(str::to_owned), field_selector: None };
            let pruning =
                Pruning { selectors: &selectors, all, allow: &[], manager: "kubectl", dry_run: DryRun::None };
            pruning.check().is_ok()
        };
        assert!(pruning(true, None) && pruning(false, Some("a=b")));
        assert!(!pruning(true, Some("a=b")) && !pruning(false, None));
    }
}
