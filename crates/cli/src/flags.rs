//! The flags that every command has, and the flags that several share. Names are kubectl's.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::error::{Error, Result};

/// Which cluster, as whom, and in which namespace. Those that are not global stand before the verb, because
/// verbs have flags of the same name (`create rolebinding --user`).
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalFlags {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the local server's]
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub context: Option<String>,
    /// The cluster of the kubeconfig to use
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub cluster: Option<String>,
    /// The user of the kubeconfig to use
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub user: Option<String>,
    /// The namespace to work in
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Address of the API server
    #[arg(short, long, value_name = "URL", hide_short_help = true)]
    pub server: Option<String>,
    /// Bearer token for the API server
    #[arg(long, value_name = "TOKEN", hide_short_help = true)]
    pub token: Option<String>,
    /// File with the certificate authority of the API server
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub certificate_authority: Option<PathBuf>,
    /// File with the client certificate
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub client_certificate: Option<PathBuf>,
    /// File with the client's key
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub client_key: Option<PathBuf>,
    /// Do not check the server's certificate
    #[arg(long, hide_short_help = true)]
    pub insecure_skip_tls_verify: bool,
    /// Act as this user
    #[arg(long = "as", global = true, value_name = "USER", hide_short_help = true)]
    pub as_user: Option<String>,
    /// Act as a member of this group; may be repeated
    #[arg(long, global = true, value_name = "GROUP", hide_short_help = true)]
    pub as_group: Vec<String>,
    /// Act with this UID
    #[arg(long, global = true, value_name = "UID", hide_short_help = true)]
    pub as_uid: Option<String>,
    /// How long one request may take, e.g. 5s; 0 for any time
    #[arg(long, global = true, value_name = "TIME", default_value = "0", hide_short_help = true, value_parser = duration)]
    pub request_timeout: Duration,
    /// Accepted for compatibility with kubectl
    #[arg(short = 'v', long = "v", global = true, value_name = "LEVEL", hide = true)]
    pub verbosity: Option<String>,
    /// Accepted for compatibility with kubectl
    #[arg(long, global = true, value_name = "DIR", hide = true)]
    pub cache_dir: Option<PathBuf>,
    /// End with an error when the server sends a warning
    #[arg(long, global = true, hide_short_help = true)]
    pub warnings_as_errors: bool,
}

/// Where manifests come from.
#[derive(Debug, Clone, Default, Args)]
pub struct FileFlags {
    /// Manifest to read: a file, a directory, a URL, or - for standard input
    #[arg(short, long = "filename", value_name = "FILE", value_delimiter = ',')]
    pub filename: Vec<String>,
    /// Directory with a kustomization.yaml, whose objects are meant
    #[arg(short = 'k', long, value_name = "DIR", conflicts_with = "filename")]
    pub kustomize: Option<String>,
    /// Also look into the directories below
    #[arg(short = 'R', long)]
    pub recursive: bool,
}

impl FileFlags {
    pub fn is_set(&self) -> bool {
        !self.filename.is_empty() || self.kustomize.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum DryRun {
    #[default]
    None,
    Client,
    Server,
}

impl DryRun {
    /// What kubectl adds to the line about an object.
    pub fn suffix(self) -> &'static str {
        match self {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        }
    }
}

/// Only show what would happen.
#[derive(Debug, Clone, Default, Args)]
pub struct DryRunFlag {
    /// Change nothing: client shows what would be sent, server lets the server check it
    #[arg(long, value_name = "none|client|server", num_args = 0..=1, require_equals = true,
          default_value = "none", default_missing_value = "client", hide_possible_values = true)]
    pub dry_run: DryRun,
}

/// Of many objects, those with these labels and fields.
#[derive(Debug, Clone, Default, Args)]
pub struct SelectorFlags {
    /// Only objects with these labels, e.g. app=web,tier!=back
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Only objects with these fields, e.g. status.phase=Running
    #[arg(long, value_name = "FIELDS")]
    pub field_selector: Option<String>,
}

/// The objects that a command is about: by name, by file or by selector.
#[derive(Debug, Clone, Default, Args)]
pub struct TargetFlags {
    /// TYPE NAME..., TYPE/NAME..., or TYPE with a selector
    #[arg(value_name = "WHAT")]
    pub words: Vec<String>,
    #[command(flatten)]
    pub files: FileFlags,
    #[command(flatten)]
    pub selectors: SelectorFlags,
}

/// How far a command reaches that names only a kind.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ReachFlags {
    /// All objects of the kind
    #[arg(long)]
    pub all: bool,
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

/// Form of the output.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputFlag {
    /// Form of the output: json, yaml, name, wide, jsonpath=..., custom-columns=..., go-template=...
    #[arg(short, long, value_name = "FORM")]
    pub output: Option<String>,
    /// Template for -o jsonpath, go-template or custom-columns
    #[arg(long, value_name = "TEXT")]
    pub template: Option<String>,
    /// Keep metadata.managedFields in json and yaml
    #[arg(long)]
    pub show_managed_fields: bool,
}

/// Go's durations, as kubectl takes them: `1h2m3.5s`, `300ms`, and plain numbers as seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.abs()).map_err(|error| error.to_string());
    }
    let wrong = || format!("invalid duration {text:?}: write it like 90s, 5m or 1h30m");
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        let after = &rest[digits..];
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let unit = match &after[..end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(wrong()),
        };
        total += number * unit;
        rest = &after[end..];
    }
    Duration::try_from_secs_f64(total).map_err(|_| wrong())
}

/// `key=value` pairs as flags give them.
pub fn pair<'a>(text: &'a str, flag: &str) -> Result<(&'a str, &'a str)> {
    text.split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| Error::plain(format!("invalid {flag} {text:?}, expected key=value")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text: &str, milliseconds: Option<u64>| {
            assert_eq!(duration(text).ok(), milliseconds.map(Duration::from_millis), "{text}");
        };
        check("0", Some(0));
        check("5s", Some(5_000));
        check("1h2m3.5s", Some(3_723_500));
        check("300ms", Some(300));
        check("7", Some(7_000));
        check("5x", None);
        check("s", None);
    }
}
