//! `cp`: files to and from containers, as tar archives through `exec`. The container needs `tar`.
//!
//! An archive is never held: one thread packs or unpacks it at one end of a pipe while the connection is served at the
//! other, so a copy of any size needs the same memory.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use serde_json::Value;
use tokio::net::unix::pipe;
use tokio::task::spawn_blocking;

use super::exec::{Io, call};
use super::pod_target;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::stream::{Ends, carry};

/// Copy files to and from containers
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s cp ./site web:/usr/share/nginx/html
  minik8s cp team-a/web:/var/log/app.log app.log
  minik8s cp web:/etc/hosts /tmp/hosts -c side")]
pub struct Cp {
    /// FILE, or [NAMESPACE/]POD:FILE
    from: String,
    /// FILE, or [NAMESPACE/]POD:FILE
    to: String,
    /// The container; the pod's first by default
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true)]
    no_preserve: bool,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true)]
    retries: Option<i64>,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Here(PathBuf),
    There { namespace: Option<String>, pod: String, path: String },
}

impl Place {
    fn parse(text: &str) -> Result<Place> {
        let Some((pod, path)) = text.split_once(':').filter(|(pod, _)| !pod.starts_with(['.', '/'])) else {
            return Ok(Place::Here(PathBuf::from(text)));
        };
        let (namespace, pod) = match pod.split_once('/') {
            Some((namespace, pod)) => (Some(namespace.to_owned()), pod),
            None => (None, pod),
        };
        if pod.is_empty() || path.is_empty() {
            return Err(Error::plain(format!(
                "filespec must match the canonical format: [[namespace/]pod:]file/path, not {text:?}"
            )));
        }
        Ok(Place::There { namespace, pod: pod.to_owned(), path: path.to_owned() })
    }
}

pub async fn run(session: &Session, verb: Cp) -> Result<()> {
    match (Place::parse(&verb.from)?, Place::parse(&verb.to)?) {
        (Place::Here(from), Place::There { namespace, pod, path }) => {
            let pod = find(session, namespace, &pod).await?;
            upload(session, &verb, &pod, &from, &path).await
        }
        (Place::There { namespace, pod, path }, Place::Here(to)) => {
            let pod = find(session, namespace, &pod).await?;
            download(session, &verb, &pod, &path, &to).await
        }
        (Place::Here(_), Place::Here(_)) => {
            Err(Error::plain("one of src or dest must be a remote file specification"))
        }
        _ => Err(Error::plain("one of src or dest must be a local file specification")),
    }
}

async fn find(session: &Session, namespace: Option<String>, name: &str) -> Result<Value> {
    let namespace = match namespace {
        Some(namespace) => namespace,
        None => session.namespace().await?.to_owned(),
    };
    session.client().await?.get(format!("/api/v1/namespaces/{namespace}/pods/{name}")).await
}

async fn upload(session: &Session, verb: &Cp, pod: &Value, from: &Path, to: &str) -> Result<()> {
    let meta = std::fs::metadata(from).map_err(|error| {
        Error::plain(format!("{} doesn't exist in local filesystem: {error}", from.display()))
    })?;
    let container = pod_target::container(session, pod, verb.container.as_deref(), false)?;
    let to = to.trim_end_matches('/');
    // A directory that is there takes the file in, as cp does.
    let inside = is_directory(session, pod, &container, to).await?;
    let own = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (directory, name) = match (inside, to.rsplit_once('/')) {
        (true, _) => (if to.is_empty() { "/" } else { to }, own),
        (false, Some((directory, name))) => {
            (if directory.is_empty() { "/" } else { directory }, name.to_owned())
        }
        (false, None) => (".", to.to_owned()),
    };
    let command = ["tar", "-xmf", "-", "-C", directory].map(str::to_owned);
    let connection = session
        .client()
        .await?
        .connect(call(pod, &container, "exec", Io { stdin: true, tty: false }, &command))
        .await?;
    let (reader, writer) = io::pipe()?;
    let (from, is_dir) = (from.to_owned(), meta.is_dir());
    let packing = spawn_blocking(move || pack(writer, &from, &name, is_dir));
    let ends = Ends {
        input: Some(receiver(reader)?),
        output: tokio::io::sink(),
        errors: tokio::io::stderr(),
        terminal: false,
    };
    let (packed, code) = tokio::join!(packing, carry(connection, ends));
    match packed.map_err(io::Error::other)? {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        // If the other side did not take it all, it says why.
        packed => {
            finished(code?)?;
            Ok(packed?)
        }
    }
}

fn receiver(pipe: PipeReader) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(OwnedFd::from(pipe))
}

fn sender(pipe: PipeWriter) -> io::Result<pipe::Sender> {
    pipe::Sender::from_owned_fd(OwnedFd::from(pipe))
}

fn finished(code: u8) -> Result<()> {
    match code {
        0 => Ok(()),
        126 | 127 => Err(Error::plain("the container has no tar, which cp needs")),
        code => Err(Error::plain(format!("tar in the container ended with exit code {code}"))),
    }
}

async fn is_directory(session: &Session, pod: &Value, container: &str, path: &str) -> Result<bool> {
    if path.is_empty() {
        return Ok(true);
    }
    let command = ["test", "-d", path].map(str::to_owned);
    let io = Io { stdin: false, tty: false };
    let connection = session.client().await?.connect(call(pod, container, "exec", io, &command)).await?;
    let ends = Ends {
        input: None::<tokio::io::Empty>,
        output: tokio::io::sink(),
        errors: tokio::io::sink(),
        terminal: false,
    };
    Ok(carry(connection, ends).await.is_ok_and(|code| code == 0))
}

/// Blocks, like its counterpart.
fn pack(to: impl Write, from: &Path, name: &str, directory: bool) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    match directory {
        true => archive.append_dir_all(name, from)?,
        false => archive.append_path_with_name(from, name)?,
    }
    archive.into_inner()?.flush()
}

async fn download(session: &Session, verb: &Cp, pod: &Value, from: &str, to: &Path) -> Result<()> {
    let container = pod_target::container(session, pod, verb.container.as_deref(), false)?;
    let from = from.trim_end_matches('/');
    let command = ["tar", "cf", "-", from].map(str::to_owned);
    let connection = session
        .client()
        .await?
        .connect(call(pod, &container, "exec", Io { stdin: false, tty: false }, &command))
        .await?;
    let base = from.rsplit('/').next().unwrap_or_default();
    let to = if to.is_dir() { to.join(base) } else { to.to_owned() };
    let (reader, writer) = io::pipe()?;
    let prefix = from.trim_start_matches('/').to_owned();
    let unpacking = spawn_blocking(move || unpack(reader, &prefix, &to));
    let ends = Ends {
        input: None::<tokio::io::Empty>,
        output: sender(writer)?,
        errors: tokio::io::stderr(),
        terminal: false,
    };
    let (unpacked, code) = tokio::join!(unpacking, carry(connection, ends));
    let unpacked = unpacked.map_err(io::Error::other)?;
    match (code, unpacked) {
        (Ok(0), unpacked) => unpacked,
        // What tar says of its end explains an archive that is no good.
        (Ok(code), _) => finished(code),
        // Who cannot write here any more has broken the connection.
        (Err(_), Err(error)) => Err(error),
        (Err(error), Ok(())) => Err(error),
    }
}

/// Unpacks what stands below `prefix` to `to`. Nothing is ever written beside it: what an archive from a
/// container says is not to be trusted.
fn unpack(archive: impl Read, prefix: &str, to: &Path) -> Result<()> {
    let mut archive = tar::Archive::new(archive);
    let mut found = false;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let Ok(below) = path.strip_prefix(prefix) else { continue };
        if below.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
            eprintln!(
                "warning: file {:?} is outside target destination, skipping",
                path.display().to_string()
            );
            continue;
        }
        if entry.header().entry_type().is_symlink() || entry.header().entry_type().is_hard_link() {
            eprintln!("warning: skipping symlink: {:?}", path.display().to_string());
            continue;
        }
        found = true;
        let target = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        entry.unpack(&target)?;
    }
    // What follows the end of the archive is read as well: the other side must not meet a closed pipe.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    if found { Ok(()) } else { Err(Error::plain(format!("{prefix:?} no such file or directory"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let there = |namespace: Option<&str>, pod: &str, path: &str| Place::There {
            namespace: namespace.map(str::to_owned),
            pod: pod.into(),
            path: path.into(),
        };
        assert_eq!(Place::parse("web:/a").unwrap(), there(None, "web", "/a"));
        assert_eq!(Place::parse("x/web:a b").unwrap(), there(Some("x"), "web", "a b"));
        assert_eq!(Place::parse("./a:b").unwrap(), Place::Here("./a:b".into()));
        assert_eq!(Place::parse("/a").unwrap(), Place::Here("/a".into()));
        assert!(Place::parse("web:").is_err());
    }

    #[test]
    fn archives() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        std::fs::create_dir_all(from.join("below")).unwrap();
        std::fs::write(from.join("below/file"), "hello").unwrap();
        let mut archive = Vec::new();
        pack(&mut archive, &from, "name", true).unwrap();
        let to = dir.path().join("to");
        unpack(archive.as_slice(), "name", &to).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("below/file")).unwrap(), "hello");
        assert!(unpack(archive.as_slice(), "other", &to).is_err());
    }

    /// More than any pipe holds, with the zeros behind the archive that some programs write.
    #[test]
    fn archive_of_any_size_goes_through_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let content: Vec<u8> = (0..4_000_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&from, &content).unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        let packed = &from;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                pack(&mut writer, packed, "name", false).unwrap();
                writer.write_all(&[0; 200_000]).unwrap();
            });
            unpack(reader, "name", &to).unwrap();
        });
        assert!(std::fs::read(&to).unwrap() == content);
    }

    #[test]
    fn packing_ends_when_nobody_reads() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        std::fs::write(&from, vec![1; 1_000_000]).unwrap();
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(pack(writer, &from, "name", false).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
