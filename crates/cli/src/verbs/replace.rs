//! `replace`: whole objects from files, in place or anew.

use clap::Args;
use http::Method;

use super::apply::explained;
use super::create::MakingFlags;
use super::delete::{DeletionFlags, delete_one};
use super::gone;
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::{DryRun, FileFlags};
use crate::manifest::{self, Item};
use crate::print::Report;
use crate::select::{self, Target};
use crate::session::Session;

/// Replace objects by those of files
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s replace -f web.yaml
  minik8s replace --force -f web.yaml")]
pub struct Replace {
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    deletion: DeletionFlags,
    /// Replace a subresource: status or scale
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,
    #[command(flatten)]
    making: MakingFlags,
}

pub async fn run(session: &Session, verb: Replace) -> Result<()> {
    let items = manifest::read_some(&verb.files, "replace").await?;
    let report = Report::new(&verb.making.output)?;
    let mut errors = Vec::new();
    for item in &items {
        if let Err(error) = replace(session, &verb, item, &report).await {
            errors.push(explained(error, item, "replacing"));
        }
    }
    Error::from_all(errors)
}

async fn replace(session: &Session, verb: &Replace, item: &Item, report: &Report) -> Result<()> {
    let target = select::of_item(session, item).await?;
    let mut how = verb.making.writing()?;
    if how.manager == "kubectl-create" {
        how.manager = "kubectl-replace";
    }
    if how.dry_run == DryRun::Client {
        return report.done(&target.shown(), "replaced", how.dry_run.suffix(), &target.object);
    }
    if verb.deletion.force {
        let options = verb.deletion.options(how.dry_run)?;
        match delete_one(session, &target, &options, how.dry_run).await {
            Ok(uid) => {
                let _progress = session.progress(format_args!("waiting until {} is gone", target.shown()));
                gone::wait(session, &target, uid.as_deref(), verb.deletion.timeout).await?;
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let made = session.create(&target.kind, &target.object, &how).await?;
        return report.done(&target.shown(), "replaced", how.dry_run.suffix(), &made);
    }
    let mut path = target.path();
    if let Some(subresource) = &verb.subresource {
        path = format!("{path}/{subresource}");
    }
    let Target { object, .. } = &target;
    let call = Call::new(Method::PUT, path).json(object);
    let after = session.client().await?.send(how.parameters(call)).await?;
    report.done(&target.shown(), "replaced", how.dry_run.suffix(), &after)
}
