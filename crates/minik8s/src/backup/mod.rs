//! `minik8s backup`, `restore` and `store copy`: a cluster as one file, and from one store to another.
//!
//! The store holds all of it: objects, and the keys that make the cluster the one it is. A backup is read at
//! one revision, of a server that runs or of a store at rest. What is filled from it goes on above every
//! revision that was ever handed out, so no client mistakes old for new. Nothing is written before all of the
//! file has been checked.

mod place;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use http_body_util::BodyExt;
use jiff::Timestamp;
use minik8s_cli::GlobalFlags;
use minik8s_store::backup::{self, Backup};

use self::place::Place;
use crate::etcd_flags::EtcdFlags;
use crate::flags::StoreFlag;
use crate::{kubeconfig, output};

#[derive(Debug, Args)]
#[command(
    after_help = "The file holds every Secret and the cluster's own keys: its mode is 0600, keep it so. With --kubeconfig (of
an administrator) or --context the cluster's server is asked for it, from any machine.

Example: minik8s backup cluster.backup"
)]
pub struct BackupFlags {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    at: PlaceFlags,
}

#[derive(Debug, Args)]
#[command(after_help = "Stop every server of the cluster first; start them after it.

Example: minik8s restore cluster.backup --data-dir /var/lib/minik8s")]
pub struct RestoreFlags {
    /// The file that `minik8s backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    at: PlaceFlags,
    /// Replace what is there; in a data dir the old store and keys are kept beside the new
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct PlaceFlags {
    /// The server's data dir
    #[arg(long, value_name = "DIR", default_value = "/var/lib/minik8s")]
    data_dir: PathBuf,
    /// Where objects are stored, as the server is told
    #[arg(long, value_name = "redb|etcd=URL[,URL...]", default_value = "redb", value_parser = StoreFlag::parse)]
    store: StoreFlag,
    #[command(flatten)]
    etcd: EtcdFlags,
}

impl PlaceFlags {
    fn place(&self) -> anyhow::Result<Place> {
        Place::new(&self.store, &self.data_dir).reached(&self.etcd)
    }
}

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Move a cluster from one store to another; stop its servers first
    #[command(
        after_help = "Example: minik8s store copy --from redb:/var/lib/minik8s --to etcd=http://10.0.0.1:2379"
    )]
    Copy {
        /// The store to read: redb:DIR (a server's data dir) or etcd=URL[,URL...]
        #[arg(long, value_name = "STORE", value_parser = Place::parse)]
        from: Place,
        /// The store to fill, which must be empty
        #[arg(long, value_name = "STORE", value_parser = Place::parse)]
        to: Place,
        #[command(flatten)]
        etcd: EtcdFlags,
        /// Replace what is there; in a data dir the old store and keys are kept beside the new
        #[arg(long)]
        force: bool,
    },
}

pub async fn back_up(flags: BackupFlags, global: &GlobalFlags) -> anyhow::Result<()> {
    let place = flags.at.place()?;
    let file = match &place {
        _ if kubeconfig::names_a_cluster(global) => ask_server(global).await?,
        Place::Redb(directory) if place::is_in_use(directory) => {
            let kubeconfig = Some(directory.join("admin.kubeconfig"));
            ask_server(&GlobalFlags { kubeconfig, ..GlobalFlags::default() }).await?
        }
        _ => backup::encode(&place.read().await?, &minik8s_apiserver::backup::note(Timestamp::now())).into(),
    };
    let Backup { contents, .. } = backup::decode(&file).context("the backup is not whole")?;
    let path = &flags.file;
    write_private(path, &file).with_context(|| format!("cannot write {}", path.display()))?;
    let (entries, revision, size) = (contents.entries.len(), contents.revision, file.len());
    Ok(output::line(format_args!(
        "{}: {entries} entries at revision {revision}, {size} bytes",
        path.display()
    ))?)
}

pub async fn restore(flags: RestoreFlags) -> anyhow::Result<()> {
    let what = || format!("cannot restore {}", flags.file.display());
    let file = std::fs::read(&flags.file).with_context(what)?;
    let Backup { contents, note } = backup::decode(&file.into()).with_context(what)?;
    let place = flags.at.place()?;
    let entries = contents.entries.len();
    place.fill(contents.for_another_life(), flags.force).await?;
    Ok(output::line(format_args!("{place} holds {entries} entries of the backup by {note}"))?)
}

pub async fn store(command: StoreCommand) -> anyhow::Result<()> {
    let StoreCommand::Copy { from, to, etcd, force } = command;
    if from == to {
        bail!("{from} cannot be copied onto itself");
    }
    let (from, to) = (from.reached(&etcd)?, to.reached(&etcd)?);
    let contents = from.read().await?;
    if contents.entries.is_empty() {
        bail!("{from} is empty: is that the right place?");
    }
    let entries = contents.entries.len();
    to.fill(contents.for_another_life(), force).await?;
    Ok(output::line(format_args!("{to} holds the {entries} entries of {from}"))?)
}

/// A running server holds its store: it is asked for the file.
async fn ask_server(flags: &GlobalFlags) -> anyhow::Result<bytes::Bytes> {
    let (client, _) = kubeconfig::client(flags).await?;
    let request = http::Request::get(minik8s_apiserver::backup::PATH).body(kube::client::Body::empty())?;
    let response = client.send(request).await.context("the server does not answer")?;
    let status = response.status();
    let body = response.into_body().collect().await.context("the server broke off")?.to_bytes();
    if !status.is_success() {
        bail!("the server refuses ({status}): {}", String::from_utf8_lossy(&body));
    }
    Ok(body)
}

/// In one step, so that an older backup of that name is there until the new one is.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let temporary = PathBuf::from(temporary);
    let _ = std::fs::remove_file(&temporary);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
