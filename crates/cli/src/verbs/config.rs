//! `config`: kubeconfig files, shown and changed.

use std::path::Path;

use base64::Engine;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::config::{self, Surroundings, named};
use crate::error::{Error, Result};
use crate::flags::{GlobalFlags, OutputFlag};
use crate::output;
use crate::print::table::{Style, plain};
use crate::print::{Form, render, yaml};
use crate::session::Session;

/// Show or change the kubeconfig
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
pub enum Config {
    /// Show the kubeconfig
    #[command(after_help = "Examples:
  minik8s config view
  minik8s config view --raw --minify")]
    View(View),
    /// List the contexts
    #[command(after_help = "Example: minik8s config get-contexts")]
    GetContexts(Names),
    /// List the clusters
    #[command(after_help = "Example: minik8s config get-clusters")]
    GetClusters,
    /// List the users
    #[command(after_help = "Example: minik8s config get-users")]
    GetUsers,
    /// Show the context in use
    #[command(after_help = "Example: minik8s config current-context")]
    CurrentContext,
    /// Use another context from now on
    #[command(visible_alias = "use", after_help = "Example: minik8s config use-context lab")]
    UseContext { name: String },
    /// Make or change a context
    #[command(after_help = "Examples:
  minik8s config set-context --current --namespace=team-a
  minik8s config set-context lab --cluster=lab --user=admin")]
    SetContext(SetContext),
    /// Make or change a cluster
    #[command(
        after_help = "Example: minik8s config set-cluster lab --server=https://192.0.2.1:6443 --certificate-authority=ca.crt --embed-certs"
    )]
    SetCluster(SetCluster),
    /// Make or change a user
    #[command(after_help = "Example: minik8s config set-credentials robot --token=TOKEN")]
    SetCredentials(SetCredentials),
    /// Rename a context
    #[command(after_help = "Example: minik8s config rename-context old new")]
    RenameContext { old: String, new: String },
    /// Remove a context
    #[command(after_help = "Example: minik8s config delete-context lab")]
    DeleteContext { name: String },
    /// Remove a cluster
    #[command(after_help = "Example: minik8s config delete-cluster lab")]
    DeleteCluster { name: String },
    /// Remove a user
    #[command(after_help = "Example: minik8s config delete-user robot")]
    DeleteUser { name: String },
}

#[derive(Debug, Args)]
pub struct View {
    /// Also show keys, tokens and certificates
    #[arg(long)]
    raw: bool,
    /// Only what the context in use needs
    #[arg(long)]
    minify: bool,
    /// Put the contents of files into the output
    #[arg(long)]
    flatten: bool,
    #[command(flatten)]
    output: OutputFlag,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true, num_args = 0..=1)]
    merge: Option<bool>,
}

#[derive(Debug, Args)]
pub struct Names {
    /// Only this one
    name: Option<String>,
    /// name: only names
    #[arg(short, long, value_name = "FORM")]
    output: Option<String>,
    /// Leave the heading out
    #[arg(long)]
    no_headers: bool,
}

#[derive(Debug, Args)]
pub struct SetContext {
    /// Name of the context
    #[arg(required_unless_present = "current")]
    name: Option<String>,
    /// The context in use
    #[arg(long)]
    current: bool,
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

#[derive(Debug, Args)]
pub struct SetCluster {
    name: String,
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<String>,
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    insecure_skip_tls_verify: Option<bool>,
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Keep the contents of files, not their names
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    embed_certs: Option<bool>,
}

#[derive(Debug, Args)]
pub struct SetCredentials {
    name: String,
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    #[arg(long, value_name = "FILE")]
    client_certificate: Option<String>,
    #[arg(long, value_name = "FILE")]
    client_key: Option<String>,
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// Keep the contents of files, not their names
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    embed_certs: Option<bool>,
}

pub fn run(session: &Session, verb: &Config) -> Result<()> {
    let flags = &session.flags;
    match verb {
        Config::View(view) => show(flags, view),
        Config::GetContexts(names) => contexts(flags, names),
        Config::GetClusters => list(flags, "clusters"),
        Config::GetUsers => list(flags, "users"),
        Config::CurrentContext => {
            let config = read(flags)?;
            match config["current-context"].as_str().filter(|name| !name.is_empty()) {
                Some(name) => output::line(name),
                None => return Err(Error::plain("current-context is not set")),
            }
            Ok(())
        }
        Config::UseContext { name } => change(flags, |config| {
            if named(config, "contexts", name).is_none() {
                return Err(Error::plain(format!("no context exists with the name: {name:?}")));
            }
            config["current-context"] = name.clone().into();
            Ok(format!("Switched to context {name:?}."))
        }),
        Config::SetContext(set) => set_context(flags, set),
        Config::SetCluster(set) => set_cluster(flags, set),
        Config::SetCredentials(set) => set_credentials(flags, set),
        Config::RenameContext { old, new } => rename(flags, old, new),
        Config::DeleteContext { name } => {
            remove(flags, "contexts", "context", name)?;
            if read(flags)?["current-context"] == name.as_str() {
                output::remark(format_args!(
                    "warning: this removed your active context, use \"{} config use-context\" to select a different one",
                    if session.as_kubectl { "kubectl" } else { "minik8s" }
                ));
            }
            Ok(())
        }
        Config::DeleteCluster { name } => remove(flags, "clusters", "cluster", name),
        Config::DeleteUser { name } => remove(flags, "users", "user", name),
    }
}

fn read(flags: &GlobalFlags) -> Result<Value> {
    let files = config::find(flags.kubeconfig.as_deref(), &Surroundings::read(), Path::exists);
    let files: Vec<_> = files.into_iter().filter(|file| file.exists()).collect();
    config::merged(&files)
}

/// Reads the file, changes it, writes it, and says what was done.
fn change(flags: &GlobalFlags, edit: impl FnOnce(&mut Value) -> Result<String>) -> Result<()> {
    let file = config::written(flags.kubeconfig.as_deref(), &Surroundings::read())?;
    let mut content = if file.exists() { config::read(&file)? } else { config::empty() };
    for list in ["clusters", "contexts", "users"] {
        if !content[list].is_array() {
            content[list] = json!([]);
        }
    }
    let told = edit(&mut content)?;
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    write_private(&file, &yaml::to_string(&content))?;
    output::line(told);
    Ok(())
}

/// Whole or not at all, and for nobody else to read.
fn write_private(file: &Path, text: &str) -> Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Files of this kind are made with mode 0600.
    let mut fresh = tempfile::NamedTempFile::new_in(directory)?;
    std::io::Write::write_all(&mut fresh, text.as_bytes())?;
    fresh
        .persist(file)
        .map_err(|error| Error::plain(format!("cannot write {}: {}", file.display(), error.error)))?;
    Ok(())
}

fn show(flags: &GlobalFlags, view: &View) -> Result<()> {
    let mut config = read(flags)?;
    if view.minify {
        minify(&mut config, flags)?;
    }
    for (list, item, files) in [
        ("clusters", "cluster", &["certificate-authority"][..]),
        ("users", "user", &["client-certificate", "client-key"][..]),
    ] {
        for entry in config[list].as_array_mut().into_iter().flatten() {
            if view.flatten {
                for field in files {
                    embed(&mut entry[item], field, None)?;
                }
            }
            if !view.raw {
                redact(&mut entry[item]);
            }
        }
    }
    config["preferences"] = json!({});
    let form = match Form::parse(&view.output)? {
        Form::Table { .. } => Form::Yaml,
        form => form,
    };
    output::text(render(&form, &config, true)?);
    Ok(())
}

fn redact(about: &mut Value) {
    for field in ["certificate-authority-data", "client-certificate-data", "client-key-data"] {
        if about[field].is_string() {
            about[field] = "DATA+OMITTED".into();
        }
    }
    for field in ["token", "password"] {
        if about[field].is_string() {
            about[field] = "REDACTED".into();
        }
    }
}

fn minify(config: &mut Value, flags: &GlobalFlags) -> Result<()> {
    let current = flags.context.clone().or_else(|| config["current-context"].as_str().map(str::to_owned));
    let current = current.unwrap_or_default();
    let context = named(config, "contexts", &current).cloned();
    let context = context.ok_or_else(|| Error::plain(format!("cannot locate context {current}")))?;
    let keep = [
        ("contexts", json!(current)),
        ("clusters", context["context"]["cluster"].clone()),
        ("users", context["context"]["user"].clone()),
    ];
    for (list, name) in keep {
        if let Some(entries) = config[list].as_array_mut() {
            entries.retain(|entry| entry["name"] == name);
        }
    }
    config["current-context"] = current.into();
    Ok(())
}

fn contexts(flags: &GlobalFlags, names: &Names) -> Result<()> {
    let config = read(flags)?;
    let all = config["contexts"].as_array().cloned().unwrap_or_default();
    let wanted = |entry: &&Value| names.name.as_ref().is_none_or(|name| entry["name"] == *name);
    let mut shown: Vec<&Value> = all.iter().filter(wanted).collect();
    shown.sort_by_key(|entry| entry["name"].to_string());
    if let Some(name) = names.name.as_ref().filter(|_| shown.is_empty()) {
        return Err(Error::plain(format!("context {name} not found")));
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if names.output.as_deref() == Some("name") {
        shown.iter().for_each(|entry| output::line(text(&entry["name"])));
        return Ok(());
    }
    let row = |entry: &&Value| {
        let (name, about) = (text(&entry["name"]), &entry["context"]);
        let current = if config["current-context"] == name { "*" } else { "" };
        vec![
            current.to_owned(),
            name,
            text(&about["cluster"]),
            text(&about["user"]),
            text(&about["namespace"]),
        ]
    };
    let style = Style { no_headers: names.no_headers, ..Style::default() };
    output::text(
        plain(&["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"], shown.iter().map(row)).render(&style),
    );
    Ok(())
}

fn list(flags: &GlobalFlags, which: &str) -> Result<()> {
    let config = read(flags)?;
    let rows = config[which].as_array().into_iter().flatten();
    let rows = rows.map(|entry| vec![entry["name"].as_str().unwrap_or_default().to_owned()]);
    output::text(plain(&["NAME"], rows).render(&Style::default()));
    Ok(())
}

/// The entry of this name, made if need be. Tells whether it was there.
fn entry<'a>(config: &'a mut Value, list: &str, item: &str, name: &str) -> Result<(&'a mut Value, bool)> {
    let entries =
        config[list].as_array_mut().ok_or_else(|| Error::plain("the kubeconfig is not readable"))?;
    let known = entries.iter().position(|entry| entry["name"] == name);
    if known.is_none() {
        entries.push(json!({"name": name, item: {}}));
    }
    let at = known.unwrap_or(entries.len() - 1);
    Ok((&mut entries[at][item], known.is_some()))
}

fn set_context(flags: &GlobalFlags, set: &SetContext) -> Result<()> {
    change(flags, |config| {
        let name = match (&set.name, set.current) {
            (_, true) => config["current-context"].as_str().unwrap_or_default().to_owned(),
            (Some(name), false) => name.clone(),
            (None, false) => String::new(),
        };
        if name.is_empty() {
            return Err(Error::plain("no current context is set"));
        }
        let (about, known) = entry(config, "contexts", "context", &name)?;
        for (field, value) in
            [("cluster", &set.cluster), ("user", &set.user), ("namespace", &flags.namespace)]
        {
            if let Some(value) = value {
                about[field] = value.clone().into();
            }
        }
        Ok(format!("Context {name:?} {}.", if known { "modified" } else { "created" }))
    })
}

fn set_cluster(flags: &GlobalFlags, set: &SetCluster) -> Result<()> {
    change(flags, |config| {
        let (about, _) = entry(config, "clusters", "cluster", &set.name)?;
        if let Some(server) = &set.server {
            about["server"] = server.trim_end_matches('/').into();
        }
        if let Some(name) = &set.tls_server_name {
            about["tls-server-name"] = name.clone().into();
        }
        if let Some(insecure) = set.insecure_skip_tls_verify {
            about["insecure-skip-tls-verify"] = insecure.into();
        }
        if let Some(file) = &set.certificate_authority {
            keep_file(about, "certificate-authority", file, set.embed_certs)?;
        }
        Ok(format!("Cluster {:?} set.", set.name))
    })
}

fn set_credentials(flags: &GlobalFlags, set: &SetCredentials) -> Result<()> {
    change(flags, |config| {
        let (about, _) = entry(config, "users", "user", &set.name)?;
        for (field, value) in
            [("token", &set.token), ("username", &set.username), ("password", &set.password)]
        {
            if let Some(value) = value {
                about[field] = value.clone().into();
            }
        }
        for (field, file) in
            [("client-certificate", &set.client_certificate), ("client-key", &set.client_key)]
        {
            if let Some(file) = file {
                keep_file(about, field, file, set.embed_certs)?;
            }
        }
        Ok(format!("User {:?} set.", set.name))
    })
}

/// The name of a file, or with `--embed-certs` what is in it.
fn keep_file(about: &mut Value, field: &str, file: &str, embed_it: Option<bool>) -> Result<()> {
    if embed_it == Some(true) {
        return embed(about, field, Some(file));
    }
    let path = std::path::absolute(file)?;
    about[field] = json!(path);
    if let Some(map) = about.as_object_mut() {
        map.shift_remove(&format!("{field}-data"));
    }
    Ok(())
}

/// Puts the contents of a file in place of its name.
fn embed(about: &mut Value, field: &str, file: Option<&str>) -> Result<()> {
    let Some(file) = file.or(about[field].as_str()).map(str::to_owned) else { return Ok(()) };
    let content =
        std::fs::read(&file).map_err(|error| Error::plain(format!("could not read {file}: {error}")))?;
    about[format!("{field}-data")] = base64::engine::general_purpose::STANDARD.encode(content).into();
    if let Some(map) = about.as_object_mut() {
        map.shift_remove(field);
    }
    Ok(())
}

fn rename(flags: &GlobalFlags, old: &str, new: &str) -> Result<()> {
    change(flags, |config| {
        if named(config, "contexts", new).is_some() {
            return Err(Error::plain(format!(
                "cannot rename the context {old:?}, the context {new:?} already exists"
            )));
        }
        let entries = config["contexts"].as_array_mut().into_iter().flatten();
        let Some(entry) = entries.into_iter().find(|entry| entry["name"] == old) else {
            return Err(Error::plain(format!(
                "cannot rename the context {old:?}, it's not in the kubeconfig"
            )));
        };
        entry["name"] = new.into();
        if config["current-context"] == old {
            config["current-context"] = new.into();
        }
        Ok(format!("Context {old:?} renamed to {new:?}."))
    })
}

fn remove(flags: &GlobalFlags, list: &str, item: &str, name: &str) -> Result<()> {
    let file = config::written(flags.kubeconfig.as_deref(), &Surroundings::read())?;
    change(flags, |config| {
        let there = named(config, list, name).is_some();
        if let Some(entries) = config[list].as_array_mut().filter(|_| there) {
            entries.retain(|entry| entry["name"] != name);
            return Ok(format!("deleted {item} {name} from {}", file.display()));
        }
        Err(Error::plain(format!("cannot delete {item} {name}, not in {}", file.display())))
    })
}
