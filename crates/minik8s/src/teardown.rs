//! `minik8s teardown`: takes the node of this machine apart, and with `--purge` its data too.
//!
//! Never while a server or an agent works with the data dir: it would end the pods that they keep starting.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::{node, output};

#[derive(Debug, Args)]
pub struct TeardownFlags {
    /// The node's data dir
    #[arg(long, value_name = "DIR", default_value = "/var/lib/minik8s")]
    pub data_dir: PathBuf,
    /// Remove the cluster's data too; what is not of minik8s stays
    #[arg(long)]
    pub purge: bool,
}

pub async fn run(flags: &TeardownFlags) -> anyhow::Result<()> {
    let data_dir = minik8s_datadir::resolve(&flags.data_dir).context("--data-dir")?;
    let _away = minik8s_datadir::vacant(&data_dir).context("nothing is taken apart: stop it first")?;
    node::tear_down(&data_dir).await?;
    if flags.purge {
        let left = minik8s_datadir::purge(&flags.data_dir)?;
        output::line(left.describe(&flags.data_dir))?;
    }
    Ok(())
}
