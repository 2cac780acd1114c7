//! Which cluster to talk to: kubectl's rules for finding and merging kubeconfig files, and at last the one
//! that the server on this machine wrote. Files are plain JSON values here, so that what this program does
//! not know survives `config` commands.

use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::flags::GlobalFlags;
use crate::manifest;

/// Where `minik8s server` keeps its files unless it is told otherwise.
const LOCAL_SERVER: &str = "/var/lib/minik8s/admin.kubeconfig";

/// What of the environment matters for finding the files.
#[derive(Debug, Default, Clone)]
pub struct Surroundings {
    pub kubeconfig: Option<String>,
    pub home: Option<PathBuf>,
}

impl Surroundings {
    pub fn read() -> Surroundings {
        Surroundings {
            kubeconfig: std::env::var("KUBECONFIG").ok(),
            home: std::env::var_os("HOME").map(PathBuf::from),
        }
    }
}

/// The files to read, the first of them the most important. One that was asked for is read even if it does
/// not exist, so that the error names it.
pub fn find(given: Option<&Path>, around: &Surroundings, exists: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    if let Some(file) = given {
        return vec![file.to_owned()];
    }
    let listed = std::env::split_paths(around.kubeconfig.as_deref().unwrap_or_default());
    let listed: Vec<PathBuf> = listed.filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        // As kubectl does: of several, those that are missing are passed over.
        let found: Vec<PathBuf> = listed.iter().filter(|file| exists(file)).cloned().collect();
        return if found.is_empty() { listed[..1].to_vec() } else { found };
    }
    let usual = around.home.as_ref().map(|home| home.join(".kube/config"));
    usual.into_iter().chain([PathBuf::from(LOCAL_SERVER)]).find(|file| exists(file)).into_iter().collect()
}

/// The file that `config` commands write: the first that there is, or that there would be.
pub fn written(given: Option<&Path>, around: &Surroundings) -> Result<PathBuf> {
    if let Some(first) = find(given, around, Path::exists).into_iter().next() {
        return Ok(first);
    }
    let home = around.home.as_ref().ok_or_else(|| Error::plain("no HOME: give --kubeconfig FILE"))?;
    Ok(home.join(".kube/config"))
}

/// Reads one file. Names of other files in it are relative to its directory.
pub fn read(file: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Error::plain(format!("cannot read the kubeconfig {}: {error}", file.display())))?;
    let documents = manifest::yaml::parse(&text).map_err(|error| {
        Error::plain(format!(
            "cannot read the kubeconfig {}: line {}: {}",
            file.display(),
            error.line,
            error.message
        ))
    })?;
    let mut config = documents.into_iter().next().map(|document| document.value).unwrap_or_default();
    if !config.is_object() {
        config = empty();
    }
    let directory = file.parent().unwrap_or(Path::new("."));
    for (list, item, fields) in [
        ("clusters", "cluster", &["certificate-authority"][..]),
        ("users", "user", &["client-certificate", "client-key", "tokenFile"][..]),
    ] {
        for entry in config[list].as_array_mut().into_iter().flatten() {
            for field in fields {
                if let Some(path) = entry[item][field].as_str().filter(|path| !path.is_empty()) {
                    entry[item][field] = json!(directory.join(path));
                }
            }
        }
    }
    Ok(config)
}

pub fn empty() -> Value {
    json!({"apiVersion": "v1", "kind": "Config", "clusters": [], "contexts": [], "current-context": "", "users": []})
}

/// All files as one. What an earlier file says holds.
pub fn merged(files: &[PathBuf]) -> Result<Value> {
    let mut config = empty();
    for file in files {
        let next = read(file)?;
        for list in ["clusters", "contexts", "users"] {
            for entry in next[list].as_array().into_iter().flatten() {
                if named(&config, list, entry["name"].as_str().unwrap_or_default()).is_none()
                    && let Some(entries) = config[list].as_array_mut()
                {
                    entries.push(entry.clone());
                }
            }
        }
        if config["current-context"] == "" && next["current-context"].is_string() {
            config["current-context"] = next["current-context"].clone();
        }
    }
    Ok(config)
}

/// The entry of this name: `named(config, "users", "admin")`.
pub fn named<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    config[list].as_array()?.iter().find(|entry| entry["name"] == name)
}

/// What a client needs to know, with the flags' word above the files'.
pub async fn load(flags: &GlobalFlags) -> Result<kube::Config> {
    let files = find(flags.kubeconfig.as_deref(), &Surroundings::read(), Path::exists);
    if files.is_empty() && flags.server.is_none() {
        if let Ok(config) = kube::Config::incluster() {
            return Ok(with_flags(config, flags));
        }
        return Err(Error::plain(
            "no kubeconfig found: give --kubeconfig FILE, set KUBECONFIG, or start a cluster with `minik8s server`",
        ));
    }
    let mut config = merged(&files)?;
    overlay(&mut config, flags);
    let kubeconfig: Kubeconfig = serde_json::from_value(config)?;
    let options = KubeConfigOptions {
        context: flags.context.clone(),
        cluster: flags.cluster.clone(),
        user: flags.user.clone(),
    };
    let shown = files.first().map(|file| file.display().to_string()).unwrap_or_default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config =
        config.map_err(|error| Error::plain(format!("cannot use the kubeconfig {shown}: {error}")))?;
    Ok(with_flags(config, flags))
}

/// A cluster that only flags describe becomes an entry like the others.
fn overlay(config: &mut Value, flags: &GlobalFlags) {
    if config["current-context"] == "" && flags.context.is_none() {
        let name = "flags";
        for (list, item) in [("clusters", "cluster"), ("users", "user"), ("contexts", "context")] {
            if let Some(entries) = config[list].as_array_mut() {
                let about =
                    if list == "contexts" { json!({"cluster": name, "user": name}) } else { json!({}) };
                entries.push(json!({"name": name, item: about}));
            }
        }
        config["current-context"] = json!(name);
    }
    let context = flags.context.clone().or_else(|| config["current-context"].as_str().map(str::to_owned));
    let context = named(config, "contexts", &context.unwrap_or_default()).cloned().unwrap_or_default();
    let mut set = |list: &str, item: &str, name: Option<&str>, field: &str, value: Option<Value>| {
        let (Some(name), Some(value)) = (name, value) else { return };
        let entry = config[list].as_array_mut().into_iter().flatten().find(|entry| entry["name"] == name);
        if let Some(entry) = entry {
            entry[item][field] = value;
        }
    };
    let cluster = flags.cluster.as_deref().or(context["context"]["cluster"].as_str());
    set("clusters", "cluster", cluster, "server", flags.server.as_ref().map(|server| json!(server)));
    set(
        "clusters",
        "cluster",
        cluster,
        "certificate-authority",
        flags.certificate_authority.as_ref().map(|file| json!(file)),
    );
    let user = flags.user.as_deref().or(context["context"]["user"].as_str());
    set("users", "user", user, "token", flags.token.as_ref().map(|token| json!(token)));
    set(
        "users",
        "user",
        user,
        "client-certificate",
        flags.client_certificate.as_ref().map(|file| json!(file)),
    );
    set("users", "user", user, "client-key", flags.client_key.as_ref().map(|file| json!(file)));
}

fn with_flags(mut config: kube::Config, flags: &GlobalFlags) -> kube::Config {
    config.accept_invalid_certs |= flags.insecure_skip_tls_verify;
    if let Some(user) = &flags.as_user {
        config.auth_info.impersonate = Some(user.clone());
    }
    if !flags.as_group.is_empty() {
        config.auth_info.impersonate_groups = Some(flags.as_group.clone());
    }
    if let Some(uid) = flags.as_uid.as_ref().and_then(|uid| HeaderValue::from_str(uid).ok()) {
        config.headers.push((HeaderName::from_static("impersonate-uid"), uid));
    }
    // Streams may be silent for as long as they like.
    config.read_timeout = None;
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_kubeconfig_is() {
        let check = |given: Option<&str>, environment: Option<&str>, there: &[&str], expected: &[&str]| {
            let exists = |file: &Path| there.iter().any(|t| Path::new(t) == file);
            let around = Surroundings {
                kubeconfig: environment.map(str::to_owned),
                home: Some(PathBuf::from("/home/me")),
            };
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(
                find(given.map(Path::new), &around, exists),
                expected,
                "{given:?} {environment:?} {there:?}"
            );
        };
        let usual = "/home/me/.kube/config";
        check(Some("/a"), Some("/b"), &["/b", usual], &["/a"]);
        check(None, Some("/b:/c"), &["/b", "/c", usual], &["/b", "/c"]);
        check(None, Some("/b:/c"), &["/c"], &["/c"]);
        check(None, Some("/b:/c"), &[usual], &["/b"]);
        check(None, Some(""), &[usual, LOCAL_SERVER], &[usual]);
        check(None, None, &[LOCAL_SERVER], &[LOCAL_SERVER]);
        check(None, None, &[], &[]);
    }

    #[test]
    fn the_first_file_holds() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        let one = write(
            "one",
            "current-context: a\nclusters:\n- {name: c, cluster: {server: 'https://one', certificate-authority: ca.crt}}\n",
        );
        let two = write(
            "two",
            "current-context: b\nclusters:\n- {name: c, cluster: {server: 'https://two'}}\nusers:\n- {name: u, user: {}}\n",
        );
        let config = merged(&[one, two]).unwrap();
        assert_eq!(config["current-context"], "a");
        assert_eq!(config["clusters"].as_array().unwrap().len(), 1);
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://one");
        assert_eq!(
            config["clusters"][0]["cluster"]["certificate-authority"],
            json!(dir.path().join("ca.crt"))
        );
        assert_eq!(config["users"][0]["name"], "u");
    }
}
