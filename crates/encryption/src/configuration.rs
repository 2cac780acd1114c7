//! The file of an EncryptionConfiguration, read and checked: two steps, so that every fault is told by its place in the
//! file. Pure.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::cipher::Cipher;
use crate::resources::Pattern;

/// As long as a plugin may take to answer, unless the file says otherwise.
const TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    #[error("it cannot be read: {0}")]
    Read(String),
    #[error("{0}")]
    Syntax(String),
    #[error("{at}: {why}")]
    Invalid { at: String, why: String },
    #[error("kms {name}: {why}")]
    Kms { name: String, why: String },
}

/// Some resources and who encrypts them, the writer first.
pub struct Entry {
    pub patterns: Vec<Pattern>,
    pub providers: Vec<ProviderSpec>,
}

pub enum ProviderSpec {
    Identity,
    /// One key: several of one provider stand one after the other.
    Local {
        kind: &'static str,
        name: String,
        cipher: Cipher,
    },
    Kms {
        name: String,
        socket: PathBuf,
        timeout: Duration,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    #[allow(dead_code, reason = "a file may have it")]
    metadata: Option<serde_json::Value>,
    #[serde(default)]
    resources: Vec<ResourceConfiguration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceConfiguration {
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    providers: Vec<ProviderConfiguration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProviderConfiguration {
    aesgcm: Option<KeyList>,
    aescbc: Option<KeyList>,
    secretbox: Option<KeyList>,
    #[serde(default, with = "given")]
    identity: bool,
    kms: Option<KmsConfiguration>,
}

/// `identity: {}` is there or not: what stands in it does not matter.
mod given {
    use serde::de::IgnoredAny;
    use serde::{Deserialize, Deserializer};

    pub fn deserialize<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
        IgnoredAny::deserialize(value).map(|_| true)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeyList {
    #[serde(default)]
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Key {
    name: String,
    secret: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KmsConfiguration {
    #[serde(default)]
    api_version: String,
    name: String,
    endpoint: String,
    #[serde(default)]
    #[allow(dead_code, reason = "of version 1: version 2 needs none")]
    cachesize: Option<i64>,
    timeout: Option<String>,
}

/// Of a key; None if it is too long or too short.
type MakeCipher = fn(&[u8]) -> Option<Cipher>;

pub fn parse(text: &str) -> Result<Vec<Entry>, ConfigurationError> {
    let file: File =
        serde_saphyr::from_str(text).map_err(|error| ConfigurationError::Syntax(error.to_string()))?;
    let expected = ("apiserver.config.k8s.io/v1", "EncryptionConfiguration");
    if (file.api_version.as_str(), file.kind.as_str()) != expected {
        let why = format!(
            "it is a {} of {}: {} of {} is expected",
            file.kind, file.api_version, expected.1, expected.0
        );
        return Err(ConfigurationError::Syntax(why));
    }
    if file.resources.is_empty() {
        return Err(invalid("resources", "say at least for one resource how it is encrypted"));
    }
    let mut names = HashSet::new();
    let entries = file.resources.into_iter().enumerate();
    let entries = entries.map(|(at, entry)| read_entry(&format!("resources[{at}]"), entry, &mut names));
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    check_order(&entries)?;
    Ok(entries)
}

fn read_entry(
    at: &str,
    entry: ResourceConfiguration,
    names: &mut HashSet<String>,
) -> Result<Entry, ConfigurationError> {
    if entry.resources.is_empty() {
        return Err(invalid(&format!("{at}.resources"), "name at least one resource"));
    }
    if entry.providers.is_empty() {
        return Err(invalid(&format!("{at}.providers"), "name at least one provider"));
    }
    let mut patterns = Vec::new();
    for (index, text) in entry.resources.iter().enumerate() {
        let told = |why: &str| invalid(&format!("{at}.resources[{index}]"), &format!("{text:?}: {why}"));
        patterns.push(Pattern::parse(text).map_err(told)?);
    }
    let mut providers = Vec::new();
    for (index, provider) in entry.providers.into_iter().enumerate() {
        read_provider(&format!("{at}.providers[{index}]"), provider, names, &mut providers)?;
    }
    Ok(Entry { patterns, providers })
}

fn read_provider(
    at: &str,
    provider: ProviderConfiguration,
    names: &mut HashSet<String>,
    out: &mut Vec<ProviderSpec>,
) -> Result<(), ConfigurationError> {
    let ProviderConfiguration { aesgcm, aescbc, secretbox, identity, kms } = provider;
    let lists: [(_, _, MakeCipher, _); 3] = [
        ("aesgcm", aesgcm, Cipher::aes_gcm, "16 or 32 bytes"),
        ("aescbc", aescbc, Cipher::aes_cbc, "16, 24 or 32 bytes"),
        ("secretbox", secretbox, Cipher::secretbox, "32 bytes"),
    ];
    let count = lists.iter().filter(|(_, list, ..)| list.is_some()).count()
        + usize::from(identity)
        + usize::from(kms.is_some());
    if count != 1 {
        let why = "it must have exactly one of aesgcm, aescbc, secretbox, kms and identity";
        return Err(invalid(at, why));
    }
    if identity {
        out.push(ProviderSpec::Identity);
    }
    for (kind, list, cipher, lengths) in lists {
        let Some(list) = list else { continue };
        if list.keys.is_empty() {
            return Err(invalid(&format!("{at}.{kind}.keys"), "give at least one key"));
        }
        let mut own = HashSet::new();
        for (index, key) in list.keys.into_iter().enumerate() {
            let at = format!("{at}.{kind}.keys[{index}]");
            check_name(&format!("{at}.name"), &key.name)?;
            if !own.insert(key.name.clone()) {
                return Err(invalid(&format!("{at}.name"), "two keys of one provider have this name"));
            }
            // Neither the key nor a part of it is ever told.
            let at = format!("{at}.secret");
            let secret = STANDARD.decode(key.secret.trim());
            let secret = secret.map_err(|_| invalid(&at, "it must be base64"))?;
            let wrong = || invalid(&at, &format!("it has {} bytes, {lengths} are needed", secret.len()));
            let cipher = cipher(&secret).ok_or_else(wrong)?;
            out.push(ProviderSpec::Local { kind, name: key.name, cipher });
        }
    }
    if let Some(kms) = kms {
        out.push(read_kms(&format!("{at}.kms"), kms, names)?);
    }
    Ok(())
}

fn read_kms(
    at: &str,
    kms: KmsConfiguration,
    names: &mut HashSet<String>,
) -> Result<ProviderSpec, ConfigurationError> {
    if kms.api_version != "v2" {
        let why =
            "only version 2 of the protocol is known: set apiVersion: v2, and use a plugin that speaks it";
        return Err(invalid(&format!("{at}.apiVersion"), why));
    }
    check_name(&format!("{at}.name"), &kms.name)?;
    if !names.insert(kms.name.clone()) {
        return Err(invalid(&format!("{at}.name"), "two plugins have this name"));
    }
    let socket = kms.endpoint.strip_prefix("unix://").filter(|path| path.starts_with('/'));
    let socket = socket.ok_or_else(|| {
        invalid(&format!("{at}.endpoint"), "it must be a socket of this machine, as unix:///run/kms.sock")
    })?;
    let timeout = match kms.timeout.as_deref() {
        None => TIMEOUT,
        Some(text) => duration(text)
            .filter(|timeout| !timeout.is_zero())
            .ok_or_else(|| invalid(&format!("{at}.timeout"), "it must be a time, as 3s or 500ms"))?,
    };
    Ok(ProviderSpec::Kms { name: kms.name, socket: socket.into(), timeout })
}

/// Names are parts of what is stored, between colons.
fn check_name(at: &str, name: &str) -> Result<(), ConfigurationError> {
    if name.is_empty() || name.contains(':') {
        return Err(invalid(at, "a name must not be empty and must not have a colon"));
    }
    Ok(())
}

/// The first entry that a resource fits counts, so nothing may stand behind what covers it.
fn check_order(entries: &[Entry]) -> Result<(), ConfigurationError> {
    let mut before: Vec<&Pattern> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        for pattern in &entry.patterns {
            if let Some(earlier) = before.iter().find(|earlier| earlier.covers(pattern)) {
                let why = format!("{pattern} is never looked for here: {earlier} stands before it");
                return Err(invalid(&format!("resources[{at}].resources"), &why));
            }
        }
        before.extend(&entry.patterns);
    }
    Ok(())
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    }
}

fn invalid(at: &str, why: &str) -> ConfigurationError {
    ConfigurationError::Invalid { at: at.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 bytes.
    const SECRET: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

    fn file(resources: &str) -> String {
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n{resources}"
        )
    }

    #[track_caller]
    fn check(resources: &str, expected: &str) {
        match parse(&file(&resources.replace("SECRET", SECRET))) {
            Ok(_) => assert_eq!(expected, "", "{resources}"),
            Err(error) => {
                let told = error.to_string();
                assert!(!expected.is_empty() && told.contains(expected), "{resources}: {told}");
                assert!(!told.contains(SECRET), "{told}");
            }
        }
    }

    #[test]
    fn what_upstream_documents_is_read() {
        check(
            "- resources: [secrets, configmaps, pandas.awesome.bears.example]\n  providers:\n  - identity: {}\n  \
             - aesgcm: {keys: [{name: key1, secret: c2VjcmV0IGlzIHNlY3VyZQ==}, {name: key2, secret: dGhpcyBpcyBwYXNzd29yZA==}]}\n  \
             - aescbc: {keys: [{name: key1, secret: c2VjcmV0IGlzIHNlY3VyZQ==}]}\n  \
             - secretbox: {keys: [{name: key1, secret: YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=}]}\n\
             - resources: [events]\n  providers: [{identity: {}}]\n\
             - resources: ['*.apps']\n  providers:\n  - kms: {apiVersion: v2, name: k, endpoint: 'unix:///run/k.sock', timeout: 500ms}\n\
             - resources: ['*.*']\n  providers: [{aescbc: {keys: [{name: k, secret: SECRET}]}}]",
            "",
        );
    }

    #[test]
    fn faults_say_where_they_are() {
        let of = |provider: &str| format!("- resources: [secrets]\n  providers: [{provider}]");
        check("  []", "resources: say at least");
        check("- resources: []\n  providers: [{identity: {}}]", "resources[0].resources: name");
        check("- resources: [secrets]\n  providers: []", "resources[0].providers: name");
        check(
            "- resources: ['*']\n  providers: [{identity: {}}]",
            "resources[0].resources[0]: \"*\": use *.*",
        );
        check(&of("{}"), "resources[0].providers[0]: it must have exactly one");
        check(&of("{identity: {}, aesgcm: {keys: []}}"), "exactly one");
        check(&of("{aesgcm: {keys: []}}"), "providers[0].aesgcm.keys: give");
        check(&of("{aesgcm: {keys: [{name: a, secret: YQ==}]}}"), "keys[0].secret: it has 1 bytes, 16 or 32");
        check(&of("{aesgcm: {keys: [{name: a, secret: '%'}]}}"), "keys[0].secret: it must be base64");
        check(&of("{aescbc: {keys: [{name: 'a:b', secret: SECRET}]}}"), "keys[0].name: a name");
        check(
            &of("{aescbc: {keys: [{name: a, secret: SECRET}, {name: a, secret: SECRET}]}}"),
            "keys[1].name: two",
        );
        check(&of("{kms: {name: k, endpoint: 'unix:///a'}}"), "kms.apiVersion: only version 2");
        check(
            &of("{kms: {apiVersion: v2, name: k, endpoint: 'http://a'}}"),
            "kms.endpoint: it must be a socket",
        );
        check(&of("{kms: {apiVersion: v2, name: k, endpoint: 'unix:///a', timeout: 0s}}"), "kms.timeout");
        check(&of("{rot13: {}}"), "rot13");
        let behind = "- resources: ['*.*']\n  providers: [{identity: {}}]\n- resources: [secrets]\n  providers: [{identity: {}}]";
        check(behind, "resources[1].resources: secrets is never looked for here: *.* stands before it");
    }

    #[test]
    fn other_kinds_are_refused() {
        let told = parse("apiVersion: v1\nkind: Secret\n").err().map(|error| error.to_string());
        assert!(told.unwrap().contains("EncryptionConfiguration of apiserver.config.k8s.io/v1 is expected"));
    }
}
