//! `patch`.

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::flags::{DryRun, DryRunFlag, FileFlags, OutputFlag};
use crate::manifest;
use crate::print::Report;
use crate::select::{self, Filter};
use crate::session::{JSON_PATCH, MERGE, STRATEGIC, Session, Writing};

/// Change fields of objects
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s patch deployment web -p '{\"spec\":{\"replicas\":3}}'
  minik8s patch node n1 --type=merge -p 'spec: {unschedulable: true}'
  minik8s patch pod web --type=json -p '[{\"op\":\"remove\",\"path\":\"/metadata/labels/old\"}]'")]
pub struct Patch {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "WHAT")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    /// The patch, as JSON or YAML
    #[arg(short, long, value_name = "PATCH")]
    patch: Option<String>,
    /// A file with the patch
    #[arg(long, value_name = "FILE")]
    patch_file: Option<String>,
    /// How lists are merged
    #[arg(
        long = "type",
        value_name = "strategic|merge|json",
        default_value = "strategic",
        hide_possible_values = true
    )]
    kind: PatchType,
    /// Patch a subresource: status or scale
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,
    /// The name under which the fields are managed
    #[arg(long, value_name = "NAME", default_value = "kubectl-patch")]
    field_manager: String,
    #[command(flatten)]
    dry_run: DryRunFlag,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PatchType {
    Strategic,
    Merge,
    Json,
}

pub async fn run(session: &Session, verb: Patch) -> Result<()> {
    let patch = read(&verb)?;
    let content_type = match verb.kind {
        PatchType::Strategic => STRATEGIC,
        PatchType::Merge => MERGE,
        PatchType::Json => JSON_PATCH,
    };
    let report = Report::new(&verb.output)?;
    let how = Writing { manager: &verb.field_manager, dry_run: verb.dry_run.dry_run, validation: None };
    let filter = Filter { files: Some(&verb.files), ..Filter::default() };
    for target in select::find_all(session, &verb.words, &filter).await? {
        let mut path = target.path();
        if let Some(subresource) = &verb.subresource {
            path = format!("{path}/{subresource}");
        }
        let how = match how.dry_run {
            // The merge is the server's work, also when nothing is to be kept.
            DryRun::Client => Writing { dry_run: DryRun::Server, ..how },
            _ => how,
        };
        let after = session.patch(path, content_type, &patch, &how).await?;
        let same = after["metadata"]["resourceVersion"] == target.object["metadata"]["resourceVersion"];
        let verb_done =
            if same && verb.dry_run.dry_run == DryRun::None { "patched (no change)" } else { "patched" };
        report.done(&target.shown(), verb_done, verb.dry_run.dry_run.suffix(), &after)?;
    }
    Ok(())
}

fn read(verb: &Patch) -> Result<Value> {
    let text = match (&verb.patch, &verb.patch_file) {
        (Some(patch), None) => patch.clone(),
        (None, Some(file)) => std::fs::read_to_string(file)
            .map_err(|error| Error::plain(format!("unable to read patch file: {file}: {error}")))?,
        _ => {
            return Err(Error::plain(
                "must specify --patch or --patch-file containing the contents of the patch",
            ));
        }
    };
    let parsed =
        manifest::yaml::parse(&text).map_err(|error| manifest::mistake::syntax("--patch", &text, &error))?;
    parsed.into_iter().next().map(|document| document.value).ok_or_else(|| {
        Error::plain("must specify --patch or --patch-file containing the contents of the patch")
    })
}
