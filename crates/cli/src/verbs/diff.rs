//! `diff`: what `apply` would change, as a unified diff. Exit code 1 means: there are differences.

use clap::Args;
use serde_json::Value;
use similar::TextDiff;

use super::apply::{explained, passes, send};
use crate::error::{Error, Result};
use crate::flags::{DryRun, FileFlags, SelectorFlags};
use crate::manifest::{self, Item};
use crate::output;
use crate::print::{self, yaml};
use crate::select::{self, Target};
use crate::session::{Session, Writing};

/// How often an object is looked at that keeps changing.
const TRIES: u32 = 4;

/// Show what apply would change
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s diff -f web.yaml
  cat web.yaml | minik8s diff -f -

The exit code is 0 without differences, 1 with differences, and larger on errors.")]
pub struct Diff {
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    selectors: SelectorFlags,
    /// Compare as apply --server-side would, stopping where others manage the same fields
    #[arg(long)]
    server_side: bool,
    /// With --server-side: take over fields that others manage
    #[arg(long)]
    force_conflicts: bool,
    /// The name under which fields are managed
    #[arg(long, value_name = "NAME", default_value = "kubectl")]
    field_manager: String,
    /// Keep metadata.managedFields
    #[arg(long)]
    show_managed_fields: bool,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true)]
    concurrency: Option<usize>,
}

pub async fn run(session: &Session, verb: Diff) -> Result<()> {
    match all(session, &verb).await {
        Ok(false) => Ok(()),
        Ok(true) => Err(Error::Exit(1)),
        Err(error) => {
            error.tell();
            Err(Error::Exit(2))
        }
    }
}

/// Whether anything differs.
async fn all(session: &Session, verb: &Diff) -> Result<bool> {
    let mut differs = false;
    for item in manifest::read_some(&verb.files, "diff").await? {
        if passes(&item.object, &verb.selectors)? {
            differs |= one(session, verb, &item).await?;
        }
    }
    Ok(differs)
}

async fn one(session: &Session, verb: &Diff, item: &Item) -> Result<bool> {
    let target = select::of_item(session, item).await?;
    let (live, merged) = look(session, verb, item, &target).await?;
    let before = live.map(|live| text(&live, verb)).unwrap_or_default();
    let after = text(&merged, verb);
    if before == after {
        return Ok(false);
    }
    let name = format!(
        "{}.{}.{}.{}",
        target.kind.api_version().replace('/', "."),
        target.kind.kind,
        target.namespace.as_deref().unwrap_or_default(),
        target.name
    );
    let (old, new) = (format!("LIVE/{name}"), format!("MERGED/{name}"));
    output::line(format_args!("diff -u -N {old} {new}"));
    output::text(TextDiff::from_lines(&before, &after).unified_diff().context_radius(3).header(&old, &new));
    Ok(true)
}

/// The object as it is, and what apply would make of it. What others change between the two is not the file's: then both are
/// asked for again, as often as kubectl does.
async fn look(
    session: &Session,
    verb: &Diff,
    item: &Item,
    target: &Target,
) -> Result<(Option<Value>, Value)> {
    let how = Writing { manager: &verb.field_manager, dry_run: DryRun::Server, validation: None };
    let force = verb.force_conflicts || !verb.server_side;
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let mut tries = TRIES;
    loop {
        let live = session.client().await?.find(target.path()).await?;
        let merged =
            send(session, target, &how, force).await.map_err(|error| explained(error, item, "diffing"))?;
        tries -= 1;
        if tries == 0 || live.as_ref().is_none_or(|live| version(live) == version(&merged)) {
            return Ok((live, merged));
        }
    }
}

fn text(object: &Value, verb: &Diff) -> String {
    let mut object =
        if verb.show_managed_fields { object.clone() } else { print::without_managed_fields(object) };
    if let Some(metadata) = object["metadata"].as_object_mut() {
        // A dry run invents them for objects that are new.
        metadata.shift_remove("resourceVersion");
        metadata.shift_remove("generation");
    }
    if object["kind"] == "Secret" {
        mask(&mut object);
    }
    yaml::to_string(&object)
}

/// Values of Secrets do not belong on a screen; that they differ does.
fn mask(secret: &mut Value) {
    for (_, value) in secret["data"].as_object_mut().into_iter().flatten() {
        let digest =
            value.as_str().unwrap_or_default().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        *value = format!("*** ({:08x})", digest >> 32).into();
    }
}
