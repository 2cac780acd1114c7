//! Makes a small image of one layer from files in memory: the pause image and the images of our tests.
//!
//! Times and owners are fixed, so the same files give the same digest.

use std::io::{self, Write};

use serde_json::json;

use super::archive::{ArchivedImage, Blob, Content};
use super::manifest::{self, Descriptor, Index, Manifest};

#[derive(Debug, Clone, Default)]
pub struct Recipe {
    name: String,
    entries: Vec<(String, Entry)>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    env: Vec<String>,
    user: String,
}

#[derive(Debug, Clone)]
enum Entry {
    File { mode: u32, content: Vec<u8> },
    Directory { mode: u32 },
    Link { target: String },
}

impl Recipe {
    pub fn new(name: &str) -> Self {
        Recipe { name: name.to_owned(), ..Recipe::default() }
    }

    /// The same image under another name.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    pub fn file(mut self, path: &str, mode: u32, content: Vec<u8>) -> Self {
        self.entries.push((path.to_owned(), Entry::File { mode, content }));
        self
    }

    pub fn directory(mut self, path: &str, mode: u32) -> Self {
        self.entries.push((path.to_owned(), Entry::Directory { mode }));
        self
    }

    pub fn link(mut self, path: &str, target: &str) -> Self {
        self.entries.push((path.to_owned(), Entry::Link { target: target.to_owned() }));
        self
    }

    pub fn entrypoint(mut self, words: &[&str]) -> Self {
        self.entrypoint = words.iter().map(|&w| w.to_owned()).collect();
        self
    }

    pub fn command(mut self, words: &[&str]) -> Self {
        self.command = words.iter().map(|&w| w.to_owned()).collect();
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push(format!("{name}={value}"));
        self
    }

    /// `UID[:GID]` or a name from the image's passwd file.
    pub fn user(mut self, user: &str) -> Self {
        self.user = user.to_owned();
        self
    }

    /// The image's blobs, in an order in which they can be stored.
    pub(super) fn image(&self) -> io::Result<ArchivedImage> {
        let layer = self.layer()?;
        // The largest by far: its digest is made once.
        let layer_descriptor = Descriptor::of(manifest::LAYER, &layer);
        let config = serde_json::to_vec(&json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "Entrypoint": self.entrypoint,
                "Cmd": self.command,
                "Env": self.env,
                "User": self.user,
            },
            "rootfs": {"type": "layers", "diff_ids": [layer_descriptor.digest]},
        }))?;
        let config_descriptor = Descriptor::of(manifest::CONFIG, &config);
        let document = serde_json::to_vec(&Manifest {
            schema_version: 2,
            media_type: Some(manifest::MANIFEST.to_owned()),
            config: config_descriptor.clone(),
            layers: vec![layer_descriptor.clone()],
        })?;
        let target = Descriptor::of(manifest::MANIFEST, &document);
        let children = vec![config_descriptor.digest.clone(), layer_descriptor.digest.clone()];
        let blob =
            |descriptor, bytes, children| Blob { descriptor, content: Content::Bytes(bytes), children };
        let blobs = vec![
            blob(layer_descriptor, layer, Vec::new()),
            blob(config_descriptor, config, Vec::new()),
            blob(target.clone(), document, children),
        ];
        Ok(ArchivedImage { names: vec![super::normalize(&self.name)], target, blobs })
    }

    /// Writes the image as an OCI archive.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let image = self.image()?;
        let mut target = image.target.clone();
        target.annotations.insert("io.containerd.image.name".to_owned(), super::normalize(&self.name));
        let index = serde_json::to_vec(&Index {
            schema_version: 2,
            media_type: Some(manifest::INDEX.to_owned()),
            manifests: vec![target],
        })?;
        let mut tar = tar::Builder::new(out);
        append(&mut tar, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        append(&mut tar, "index.json", 0o644, &index)?;
        for blob in &image.blobs {
            let path = format!("blobs/{}", blob.descriptor.digest.replacen(':', "/", 1));
            if let Content::Bytes(bytes) = &blob.content {
                append(&mut tar, &path, 0o644, bytes)?;
            }
        }
        tar.finish()
    }

    pub(super) fn layer(&self) -> io::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            match entry {
                Entry::File { mode, content } => append(&mut tar, path, *mode, content)?,
                Entry::Directory { mode } => {
                    let mut header = header(tar::EntryType::Directory, *mode, 0);
                    tar.append_data(&mut header, path, io::empty())?;
                }
                Entry::Link { target } => {
                    let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                    tar.append_link(&mut header, path, target)?;
                }
            }
        }
        tar.into_inner()
    }
}

fn append<W: Write>(tar: &mut tar::Builder<W>, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
    let mut header = header(tar::EntryType::Regular, mode, content.len() as u64);
    tar.append_data(&mut header, path, content)
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Go's name of this machine's architecture.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
