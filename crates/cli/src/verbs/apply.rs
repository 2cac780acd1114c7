//! `apply`: makes the cluster's objects be what the files say, by server-side apply.
//!
//! Without `--server-side` the words and manners are those of kubectl's client-side apply: created, configured
//! or unchanged, and the file wins over other writers. What objects kept in the annotation of client-side
//! apply is moved to managed fields first ([`migrate`]), so that fields that left the file leave the object.

mod migrate;

use clap::Args;
use http::Method;
use serde_json::Value;

use super::delete::DeletionFlags;
use super::prune::Pruning;
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::{DryRun, DryRunFlag, FileFlags, OutputFlag, SelectorFlags};
use crate::manifest::{self, Item, mistake};
use crate::print::{Report, bar};
use crate::select::{self, Target};
use crate::session::{APPLY, Session, Writing};

/// Create or change objects to be as files say
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s apply -f web.yaml
  minik8s apply -f manifests/ -R
  cat web.yaml | minik8s apply -f -
  minik8s apply -k overlays/production
  minik8s apply -f manifests/ --prune -l app=web
  minik8s apply -f web.yaml --dry-run=server -o yaml")]
pub struct Apply {
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
    #[command(flatten)]
    output: OutputFlag,
    /// Stop where others manage the same fields, instead of taking them over
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    server_side: bool,
    /// With --server-side: take over fields that others manage
    #[arg(long)]
    force_conflicts: bool,
    /// The name under which fields are managed
    #[arg(long, value_name = "NAME", default_value = "kubectl")]
    field_manager: String,
    #[command(flatten)]
    validate: ValidateFlag,
    /// Only objects of the files with these labels
    #[command(flatten)]
    selectors: SelectorFlags,
    /// Delete what was applied before and is no longer in the files; with -l or --all
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    prune: bool,
    /// With --prune: whatever its labels
    #[arg(long)]
    all: bool,
    /// With --prune: only of these kinds, GROUP/VERSION/KIND; may be repeated
    #[arg(long, value_name = "KIND", alias = "prune-whitelist")]
    prune_allowlist: Vec<String>,
    #[command(flatten)]
    deletion: DeletionFlags,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    overwrite: Option<bool>,
}

impl Apply {
    fn pruning(&self) -> Pruning<'_> {
        Pruning {
            selectors: &self.selectors,
            all: self.all,
            allow: &self.prune_allowlist,
            manager: &self.field_manager,
            dry_run: self.dry_run.dry_run,
        }
    }
}

/// What the server does about fields it does not know.
#[derive(Debug, Clone, Args)]
pub struct ValidateFlag {
    /// Unknown fields are an error (strict), a warning (warn), or nothing (ignore)
    #[arg(long, value_name = "strict|warn|ignore", num_args = 0..=1, require_equals = true,
          default_value = "strict", default_missing_value = "strict")]
    validate: String,
}

impl ValidateFlag {
    pub fn mode(&self) -> Result<&'static str> {
        match self.validate.as_str() {
            "strict" | "true" => Ok("Strict"),
            "warn" => Ok("Warn"),
            "ignore" | "false" => Ok("Ignore"),
            other => Err(Error::plain(format!(
                "invalid - validate option {other:?}; must be one of: strict (or true), warn, ignore (or false)"
            ))),
        }
    }
}

pub async fn run(session: &Session, verb: Apply) -> Result<()> {
    let report = Report::new(&verb.output)?;
    let mut errors = Vec::new();
    if verb.prune {
        verb.pruning().check()?;
    }
    let items = manifest::read_some(&verb.files, "apply").await?;
    let mut applied = Vec::new();
    let progress = session.progress("");
    for (done, item) in items.iter().enumerate() {
        progress.say(format_args!("{}  applying {}", bar::of(done, items.len(), "objects"), item.source));
        match apply_one(session, &verb, item, &report).await {
            Ok(done) => applied.extend(done),
            Err(error) => errors.push(error),
        }
    }
    if applied.is_empty() && errors.is_empty() {
        return Err(Error::plain("no objects passed to apply"));
    }
    // Nothing is deleted because of a file that could not be applied.
    if verb.prune && errors.is_empty() {
        verb.pruning().run(session, &applied, &verb.deletion).await?;
    }
    Error::from_all(errors)
}

/// None: the selector passes it over.
async fn apply_one(session: &Session, verb: &Apply, item: &Item, report: &Report) -> Result<Option<Target>> {
    if !passes(&item.object, &verb.selectors)? {
        return Ok(None);
    }
    let target = select::of_item(session, item).await?;
    if target.name.is_empty() && item.object["metadata"]["generateName"].is_string() {
        return Err(Error::plain(format!("from {}: cannot use generate name with apply", item.source)));
    }
    let how = Writing {
        manager: &verb.field_manager,
        dry_run: verb.dry_run.dry_run,
        validation: Some(verb.validate.mode()?),
    };
    let client = session.client().await?;
    let before = client.find(target.path()).await?;
    if how.dry_run == DryRun::Client {
        let done = if before.is_some() { "configured" } else { "created" };
        report.done(
            &target.shown(),
            done,
            how.dry_run.suffix(),
            before.as_ref().unwrap_or(&target.object),
        )?;
        return Ok(Some(target));
    }
    if let Some(before) = &before {
        migrate::run(session, &target, before, &how).await?;
    }
    let force = verb.force_conflicts || !verb.server_side;
    let after = send(session, &target, &how, force).await;
    let doing = if before.is_some() { "applying patch" } else { "creating" };
    let after = after.map_err(|error| explained(error, item, doing))?;
    let is_unchanged = |before: &Value| {
        is_same(before, &after, how.dry_run) || is_as_before(&target.object, before, &after, how.manager)
    };
    let done = match &before {
        _ if verb.server_side => "serverside-applied",
        None => "created",
        Some(before) if is_unchanged(before) => "unchanged",
        Some(_) => "configured",
    };
    report.done(&target.shown(), done, how.dry_run.suffix(), &after)?;
    Ok(Some(target))
}

/// Sends an object to be applied.
pub async fn send(session: &Session, target: &Target, how: &Writing<'_>, force: bool) -> Result<Value> {
    let call = Call::new(Method::PATCH, target.path())
        .query("force", force.to_string())
        .body(APPLY, target.object.to_string().into_bytes());
    session.client().await?.send(how.parameters(call)).await
}

/// Whether the labels of an object of a file are those asked for.
pub fn passes(object: &Value, selectors: &SelectorFlags) -> Result<bool> {
    let Some(selector) = &selectors.selector else { return Ok(true) };
    let selector =
        minik8s_meta::LabelSelector::parse(selector).map_err(|error| Error::plain(error.to_string()))?;
    Ok(selector.matches(object["metadata"]["labels"].as_object()))
}

/// Nothing but the notes about who manages what may differ. Only a write that happened has a version to go by.
fn is_same(before: &Value, after: &Value, dry_run: DryRun) -> bool {
    let tidy = |object: &Value| {
        let mut object = crate::print::without_managed_fields(object);
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.shift_remove("resourceVersion");
            metadata.shift_remove("generation");
        }
        object
    };
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    (dry_run == DryRun::None && version(before) == version(after)) || tidy(before) == tidy(after)
}

/// Whether all that the file says was so before, though others have written meanwhile, as controllers do into a status: it
/// has nothing new, and our manager has as many fields as it had.
fn is_as_before(file: &Value, before: &Value, after: &Value, manager: &str) -> bool {
    let is_own = |entry: &&Value| {
        entry["manager"] == manager && entry["operation"] == "Apply" && entry["subresource"].is_null()
    };
    let own = |object: &Value| {
        let mut entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        entries.find(is_own).map(|entry| entry["fieldsV1"].clone())
    };
    own(before).is_some_and(|fields| own(after) == Some(fields)) && says_nothing_new(file, before, after)
}

/// Compared is what the server made of it: an amount may stand there in other words than in the file.
fn says_nothing_new(file: &Value, before: &Value, after: &Value) -> bool {
    match (file, before, after) {
        (Value::Object(file), Value::Object(before), Value::Object(after)) => {
            file.iter().all(|(name, said)| match (before.get(name), after.get(name)) {
                (Some(before), Some(after)) => says_nothing_new(said, before, after),
                (None, None) => true,
                _ => false,
            })
        }
        _ => before == after,
    }
}

/// What went wrong, with the place in the file below it, and for conflicts what can be done.
pub fn explained(error: Error, item: &Item, doing: &str) -> Error {
    let Error::Server(server) = &error else { return error };
    if error.is_conflict() && server.message.starts_with("Apply failed") {
        return Error::plain(format!("{}\n{CONFLICT}", server.message));
    }
    let places = mistake::of_fields(item, server);
    let error = error.when(doing, &item.source);
    if places.is_empty() { error } else { Error::Bare(format!("{error}\n{}", places.trim_end())) }
}

const CONFLICT: &str = "Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_counts_as_a_change() {
        let before = json!({"metadata": {"resourceVersion": "1", "managedFields": [1]}, "data": {"a": "1"}});
        let same = json!({"metadata": {"resourceVersion": "2", "managedFields": [2]}, "data": {"a": "1"}});
        let other = json!({"metadata": {"resourceVersion": "2"}, "data": {"a": "2"}});
        assert!(is_same(&before, &same, DryRun::None) && !is_same(&before, &other, DryRun::None));
        let tried = json!({"metadata": {"resourceVersion": "1"}, "data": {"a": "2"}});
        assert!(!is_same(&before, &tried, DryRun::Server));
    }

    #[test]
    fn what_others_write_meanwhile_is_no_change() {
        let object = |replicas: u32, fields: &str, status: u32| {
            let entry = json!({"manager": "kubectl", "operation": "Apply", "fieldsV1": {fields: {}}});
            let metadata = json!({"resourceVersion": status.to_string(), "managedFields": [entry]});
            json!({"metadata": metadata, "spec": {"replicas": replicas, "paused": false}, "status": {"n": status}})
        };
        let file = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2}});
        let check = |after: Value, manager: &str, expected: bool| {
            let found = is_as_before(&file, &object(2, "f:spec", 1), &after, manager);
            assert_eq!(found, expected, "{after} {manager}");
        };
        check(object(2, "f:spec", 2), "kubectl", true);
        check(object(3, "f:spec", 2), "kubectl", false);
        // A field left the file, or this is the first time that it is applied.
        check(object(2, "f:less", 2), "kubectl", false);
        check(object(2, "f:spec", 2), "other", false);
    }
}
