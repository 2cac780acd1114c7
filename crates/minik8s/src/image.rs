//! `minik8s image`: the images of this machine's node.

use std::fs::File;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context, bail};
use minik8s_cli::{Progress, bar};
use minik8s_kubelet::Config;
use minik8s_kubelet::image::ImageStore;

use crate::flags::ImageCommand;
use crate::output;

pub async fn run(command: ImageCommand) -> anyhow::Result<()> {
    match command {
        ImageCommand::Load { files, node } => {
            let store = store(&node.data_dir)?;
            for file in files {
                load(&store, &file).await.with_context(|| format!("cannot load {}", file.display()))?;
            }
            Ok(())
        }
        ImageCommand::List { node } => {
            let images = store(&node.data_dir)?.list().await?;
            let width = images.iter().map(|image| image.name.len()).max().unwrap_or(0).max("IMAGE".len());
            output::line(format_args!("{:width$}  DIGEST", "IMAGE"))?;
            for image in images {
                output::line(format_args!("{:width$}  {}", image.name, image.digest))?;
            }
            Ok(())
        }
        ImageCommand::Rm { names, node } => {
            let store = store(&node.data_dir)?;
            for name in names {
                store.remove(&name).await?;
                output::line(format_args!("removed {name}"))?;
            }
            Ok(())
        }
    }
}

/// The image store of the node's containerd, which must be running.
fn store(data_dir: &Path) -> anyhow::Result<ImageStore> {
    let data_dir = std::path::absolute(data_dir).context("--data-dir")?;
    let socket = Config::new("node", &data_dir, IpAddr::V4(Ipv4Addr::LOCALHOST)).containerd_socket();
    if !socket.exists() {
        bail!(
            "no node runs with the data dir {} (start one with `minik8s server`, or give --data-dir)",
            data_dir.display()
        );
    }
    Ok(ImageStore::new(&socket))
}

async fn load(store: &ImageStore, file: &Path) -> anyhow::Result<()> {
    let line = Progress::begin(format_args!("loading {}", file.display()));
    let show = |progress: minik8s_kubelet::image::Progress| {
        let [done, total] =
            [progress.done, progress.total].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let percent = bar::percent(done, total);
        line.say(format_args!("loading {}  {} {percent:3} %", progress.image, bar::bar(done, total)));
    };
    let loaded = store.load(BufReader::new(File::open(file)?), show).await?;
    drop(line);
    if loaded.is_empty() {
        bail!("the archive names no image");
    }
    for name in loaded {
        output::line(format_args!("loaded {name}"))?;
    }
    Ok(())
}
