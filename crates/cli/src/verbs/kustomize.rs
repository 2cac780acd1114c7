//! `kustomize`: what a kustomization gives, without a cluster.

use clap::Args;

use crate::error::Result;
use crate::kustomize;
use crate::output;
use crate::print::yaml;

/// Print the objects of a directory with a kustomization.yaml
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s kustomize overlays/production
  minik8s apply -k overlays/production")]
pub struct Kustomize {
    /// The directory
    #[arg(value_name = "DIR", default_value = ".")]
    directory: String,
}

pub fn run(verb: &Kustomize) -> Result<()> {
    let objects: Vec<String> = kustomize::build(&verb.directory)?.iter().map(yaml::to_string).collect();
    output::text(objects.join("---\n"));
    Ok(())
}
