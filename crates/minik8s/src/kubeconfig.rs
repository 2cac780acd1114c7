//! Which cluster a command talks to: kubectl's rules for finding the kubeconfig, and at last the one that
//! the server on this machine wrote.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Where `minik8s server` keeps its files unless it is told otherwise.
const DEFAULT_DATA_DIR: &str = "/var/lib/minik8s";

/// The cluster to talk to.
#[derive(Debug, Default, Args)]
pub struct ClusterFlags {
    /// The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or the local server's]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// A client of the cluster, and the namespace its kubeconfig names.
pub async fn client(flags: &ClusterFlags) -> anyhow::Result<(kube::Client, String)> {
    let environment = std::env::var("KUBECONFIG").ok();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let found = find(flags.kubeconfig.as_deref(), environment.as_deref(), home.as_deref(), Path::exists);
    let [first, others @ ..] = found.as_slice() else {
        bail!(
            "no kubeconfig found: give --kubeconfig FILE, set KUBECONFIG, or start a cluster with `minik8s server`"
        );
    };
    let mut kubeconfig = read(first)?;
    for file in others {
        kubeconfig = kubeconfig.merge(read(file)?)?;
    }
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let config = config.with_context(|| format!("cannot use the kubeconfig {}", first.display()))?;
    let namespace = config.default_namespace.clone();
    Ok((kube::Client::try_from(config)?, namespace))
}

fn read(file: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read_from(file).with_context(|| format!("cannot read the kubeconfig {}", file.display()))
}

/// The files to read, the first of them the most important. One that was asked for is read even if it does
/// not exist, so that the error names it.
fn find(
    given: Option<&Path>,
    environment: Option<&str>,
    home: Option<&Path>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    if let Some(file) = given {
        return vec![file.to_owned()];
    }
    let listed = std::env::split_paths(environment.unwrap_or_default()).filter(|p| !p.as_os_str().is_empty());
    let listed: Vec<PathBuf> = listed.collect();
    if !listed.is_empty() {
        // As kubectl does: of several, those that are missing are passed over.
        let found: Vec<PathBuf> = listed.iter().filter(|file| exists(file)).cloned().collect();
        return if found.is_empty() { listed[..1].to_vec() } else { found };
    }
    let usual = home.map(|home| home.join(".kube/config"));
    let local = Path::new(DEFAULT_DATA_DIR).join("admin.kubeconfig");
    usual.into_iter().chain([local]).find(|file| exists(file)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_kubeconfig_is() {
        let check = |given: Option<&str>, environment: Option<&str>, there: &[&str], expected: &[&str]| {
            let exists = |file: &Path| there.iter().any(|t| Path::new(t) == file);
            let found = find(given.map(Path::new), environment, Some(Path::new("/home/me")), exists);
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(found, expected, "{given:?} {environment:?} {there:?}");
        };
        let usual = "/home/me/.kube/config";
        let local = "/var/lib/minik8s/admin.kubeconfig";
        check(Some("/a"), Some("/b"), &["/b", usual], &["/a"]);
        check(None, Some("/b:/c"), &["/b", "/c", usual], &["/b", "/c"]);
        check(None, Some("/b:/c"), &["/c"], &["/c"]);
        check(None, Some("/b:/c"), &[usual], &["/b"]);
        check(None, Some(""), &[usual, local], &[usual]);
        check(None, None, &[local], &[local]);
        check(None, None, &[], &[]);
    }
}
