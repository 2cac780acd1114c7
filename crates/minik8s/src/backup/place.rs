//! Where a cluster's store is, and what can be done with it while no server uses it.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use minik8s_auth::pki::SharedKeys;
use minik8s_datadir::remove_tree;
use minik8s_store::{Contents, Error, EtcdAddress, EtcdStore, Options, RedbStore};

use crate::etcd_flags::EtcdFlags;
use crate::flags::StoreFlag;
use crate::identity;
use crate::server::ETCD_PREFIX;

/// What `--store redb` calls its file in the data dir.
pub const FILE: &str = "store.redb";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A server's data dir.
    Redb(PathBuf),
    Etcd(EtcdAddress),
}

impl Place {
    pub fn new(store: &StoreFlag, data_dir: &Path) -> Place {
        match store {
            StoreFlag::Redb => Place::Redb(data_dir.to_owned()),
            StoreFlag::Etcd(urls) => Place::Etcd(EtcdAddress::new(urls)),
        }
    }

    pub fn parse(text: &str) -> Result<Place, String> {
        match text.strip_prefix("redb:") {
            Some("") => Err("give the server's data dir, e.g. redb:/var/lib/minik8s".to_owned()),
            Some(directory) => Ok(Place::Redb(directory.into())),
            None if text == "redb" => {
                Err("give the server's data dir, e.g. redb:/var/lib/minik8s".to_owned())
            }
            None => StoreFlag::parse(text)
                .map(|flag| Place::new(&flag, Path::new("")))
                .map_err(|_| "use redb:DIR or etcd=URL[,URL...]".to_owned()),
        }
    }

    /// The same place, reached as the flags say.
    pub fn reached(self, flags: &EtcdFlags) -> anyhow::Result<Place> {
        match self {
            Place::Etcd(address) => Ok(Place::Etcd(flags.address(&address.endpoints)?)),
            other => Ok(other),
        }
    }

    pub async fn read(&self) -> anyhow::Result<Contents> {
        match self {
            Place::Redb(directory) => {
                let path = directory.join(FILE);
                if !path.exists() {
                    bail!("{} is not there: no server has used that data dir", path.display());
                }
                let store = RedbStore::open(path, Options::default())?;
                let contents = Contents::read(&*store).await?;
                store.close().await;
                Ok(contents)
            }
            Place::Etcd(address) => {
                let store = EtcdStore::connect(address, ETCD_PREFIX, Options::default()).await?;
                Ok(Contents::read(&*store).await?)
            }
        }
    }

    /// All or nothing: a place that could not be filled to the end opens for no server.
    pub async fn fill(&self, contents: Contents, force: bool) -> anyhow::Result<()> {
        let filled = match self {
            Place::Redb(directory) => {
                let directory = directory.clone();
                tokio::task::spawn_blocking(move || fill_directory(&directory, &contents, force)).await?
            }
            Place::Etcd(address) => {
                EtcdStore::fill(address, ETCD_PREFIX, &contents, force).await.map_err(Into::into)
            }
        };
        match filled {
            Err(error) if matches!(error.downcast_ref(), Some(Error::NotEmpty(_))) => {
                Err(error.context("nothing was changed (--force replaces what is there)"))
            }
            other => other.with_context(|| format!("cannot fill {self}")),
        }
    }
}

/// The data dir's certificates were issued by the keys in the store, so those of another cluster go with it.
fn fill_directory(directory: &Path, contents: &Contents, force: bool) -> anyhow::Result<()> {
    let directory = minik8s_datadir::prepare(directory)?;
    let (store, keys) = (directory.join(FILE), directory.join("pki"));
    let pin = |keys: Option<SharedKeys>| keys.and_then(|keys| keys.pin().ok());
    let is_foreign = keys.exists() && pin(SharedKeys::read(&keys)?) != pin(identity::within(contents));
    if is_foreign && !force {
        return Err(Error::NotEmpty(keys.display().to_string()).into());
    }
    if force && store.exists() {
        // Kept as another name of the same file: what it holds is replaced, it is not.
        let old = aside(&store);
        let _ = std::fs::remove_file(&old);
        std::fs::hard_link(&store, old)?;
    }
    RedbStore::fill(&store, contents, force)?;
    if is_foreign {
        let old = aside(&keys);
        remove_tree(&directory, old.file_name().unwrap_or_default())?;
        std::fs::rename(&keys, old)?;
    }
    Ok(())
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".before-restore");
    name.into()
}

/// Whether a server runs on that data dir.
pub fn is_in_use(directory: &Path) -> bool {
    let path = directory.join(FILE);
    path.exists() && matches!(RedbStore::open(path, Options::default()), Err(Error::InUse(_)))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Redb(directory) => write!(f, "redb:{}", directory.display()),
            Place::Etcd(address) => write!(f, "etcd={}", address.endpoints.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let check = |text: &str, expected: Option<Place>| {
            let parsed = Place::parse(text).ok();
            assert_eq!(parsed, expected, "{text}");
            assert!(parsed.is_none_or(|place| place.to_string() == text));
        };
        check("redb:/var/lib/minik8s", Some(Place::Redb("/var/lib/minik8s".into())));
        check(
            "etcd=http://a:1,http://b:2",
            Some(Place::Etcd(EtcdAddress::new(["http://a:1", "http://b:2"]))),
        );
        for wrong in ["", "redb", "redb:", "etcd=", "etcd=a:1", "/var/lib/minik8s"] {
            check(wrong, None);
        }
    }
}
