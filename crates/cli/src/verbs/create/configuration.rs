//! ConfigMaps and Secrets from literals, files and directories.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::MakingFlags;
use crate::error::{Error, Result};
use crate::flags::pair;

/// Where the data comes from.
#[derive(Debug, Args)]
pub struct Sources {
    /// key=value
    #[arg(long, value_name = "KEY=VALUE")]
    from_literal: Vec<String>,
    /// A file, key=file, or a directory
    #[arg(long, value_name = "[KEY=]FILE")]
    from_file: Vec<String>,
    /// A file with lines of KEY=VALUE
    #[arg(long, value_name = "FILE")]
    from_env_file: Vec<String>,
}

impl Sources {
    fn read(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut data: Vec<(String, Vec<u8>)> = Vec::new();
        for file in &self.from_file {
            match file.split_once('=') {
                Some((key, file)) => data.push((key.to_owned(), read(Path::new(file))?)),
                None => data.extend(files(Path::new(file))?),
            }
        }
        for literal in &self.from_literal {
            let (key, value) = pair(literal, "--from-literal")?;
            data.push((key.to_owned(), unquoted(value).as_bytes().to_owned()));
        }
        for file in &self.from_env_file {
            data.extend(env_lines(&String::from_utf8_lossy(&read(Path::new(file))?))?);
        }
        for (i, (key, _)) in data.iter().enumerate() {
            if data[..i].iter().any(|(known, _)| known == key) {
                return Err(Error::plain(format!(
                    "cannot add key {key:?}, another key by that name already exists"
                )));
            }
        }
        Ok(data)
    }
}

fn unquoted(value: &str) -> &str {
    let inner = |quote: char| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::plain(format!("error reading {}: no such file or directory", file.display()))
        }
        _ => Error::plain(format!("error reading {}: {error}", file.display())),
    })
}

/// A file by its name, or the files of a directory.
fn files(path: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let name =
        |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if !path.is_dir() {
        return Ok(vec![(name(path), read(path)?)]);
    }
    let mut entries: Vec<_> =
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    entries.sort();
    entries.retain(|entry| entry.is_file());
    entries.iter().map(|entry| Ok((name(entry), read(entry)?))).collect()
}

fn env_lines(text: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parse = |line: &str| match line.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.as_bytes().to_owned())),
        None => Ok((line.to_owned(), std::env::var(line).unwrap_or_default().into_bytes())),
    };
    lines.map(parse).collect()
}

/// Create a ConfigMap
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s create configmap settings --from-literal=color=red
  minik8s create configmap site --from-file=index.html --from-file=conf/")]
pub struct ConfigMap {
    name: String,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl ConfigMap {
    pub fn object(&self) -> Result<Value> {
        let (mut data, mut binary) = (Map::new(), Map::new());
        for (key, bytes) in self.sources.read()? {
            match String::from_utf8(bytes) {
                Ok(text) => data.insert(key, text.into()),
                Err(error) => binary.insert(key, STANDARD.encode(error.as_bytes()).into()),
            };
        }
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name}});
        for (field, map) in [("data", data), ("binaryData", binary)] {
            if !map.is_empty() {
                object[field] = map.into();
            }
        }
        Ok(object)
    }
}

/// Create a Secret
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
pub enum Secret {
    /// From literals, files or directories
    #[command(
        after_help = "Example: minik8s create secret generic login --from-literal=user=me --from-file=key.pem"
    )]
    Generic {
        name: String,
        #[command(flatten)]
        sources: Sources,
        /// Type of the Secret
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        #[command(flatten)]
        making: MakingFlags,
    },
    /// A certificate with its key
    #[command(after_help = "Example: minik8s create secret tls web --cert=web.crt --key=web.key")]
    Tls {
        name: String,
        /// File with the certificate
        #[arg(long, value_name = "FILE")]
        cert: String,
        /// File with the key
        #[arg(long, value_name = "FILE")]
        key: String,
        #[command(flatten)]
        making: MakingFlags,
    },
    /// Credentials of an image registry
    #[command(
        after_help = "Example: minik8s create secret docker-registry hub --docker-server=registry.example --docker-username=me --docker-password=secret"
    )]
    DockerRegistry {
        name: String,
        /// Address of the registry
        #[arg(long, value_name = "HOST", default_value = "https://index.docker.io/v1/")]
        docker_server: String,
        #[arg(long, value_name = "USER")]
        docker_username: String,
        #[arg(long, value_name = "PASSWORD")]
        docker_password: String,
        #[arg(long, value_name = "ADDRESS")]
        docker_email: Option<String>,
        #[command(flatten)]
        making: MakingFlags,
    },
}

impl Secret {
    pub fn making(&self) -> &MakingFlags {
        match self {
            Secret::Generic { making, .. }
            | Secret::Tls { making, .. }
            | Secret::DockerRegistry { making, .. } => making,
        }
    }

    pub fn object(&self) -> Result<Value> {
        match self {
            Secret::Generic { name, sources, kind, .. } => Ok(secret(name, sources.read()?, kind.as_deref())),
            Secret::Tls { name, cert, key, .. } => {
                let data = vec![
                    ("tls.crt".to_owned(), read(Path::new(cert))?),
                    ("tls.key".to_owned(), read(Path::new(key))?),
                ];
                Ok(secret(name, data, Some("kubernetes.io/tls")))
            }
            Secret::DockerRegistry {
                name,
                docker_server,
                docker_username,
                docker_password,
                docker_email,
                ..
            } => {
                let mut entry = json!({"username": docker_username, "password": docker_password});
                if let Some(email) = docker_email {
                    entry["email"] = email.clone().into();
                }
                entry["auth"] = STANDARD.encode(format!("{docker_username}:{docker_password}")).into();
                let config = json!({"auths": {docker_server: entry}}).to_string();
                let data = vec![(".dockerconfigjson".to_owned(), config.into_bytes())];
                Ok(secret(name, data, Some("kubernetes.io/dockerconfigjson")))
            }
        }
    }
}

fn secret(name: &str, data: Vec<(String, Vec<u8>)>, kind: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    let data: Map<String, Value> =
        data.into_iter().map(|(key, bytes)| (key, STANDARD.encode(bytes).into())).collect();
    if !data.is_empty() {
        object["data"] = data.into();
    }
    if let Some(kind) = kind {
        object["type"] = kind.into();
    }
    object
}
