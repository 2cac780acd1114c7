//! `minik8s cluster set` and `get`: settings of the whole cluster that take effect without a restart.
//!
//! They are kept in the API, in the ConfigMap `minik8s-cluster` of `kube-system`, where whoever they concern
//! watches them. Keys and values are checked here, before they are written.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use clap::Subcommand;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use minik8s_cli::GlobalFlags;
use minik8s_scheduler::{SETTINGS as STRATEGY, Strategy};
use minik8s_workflows::tasks::egress::{Allowed, SETTINGS as ALLOWED};
use serde_json::json;

use crate::mesh_switch::{self, Switch};
use crate::{kubeconfig, output};

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Change settings; `KEY=` restores the default
    #[command(after_help = "Examples:
  minik8s cluster set scheduler.strategy=binpack
  minik8s cluster set scheduler.strategy=")]
    Set {
        #[arg(required = true, value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Show the settings
    #[command(after_help = "Example: minik8s cluster get")]
    Get {
        /// Only this one's value
        #[arg(value_name = "KEY")]
        key: Option<String>,
    },
}

struct Setting {
    key: &'static str,
    default: fn() -> String,
    check: fn(&str) -> Result<(), String>,
    about: &'static str,
}

const SETTINGS: &[Setting] = &[
    Setting {
        key: STRATEGY.2,
        default: || Strategy::default().to_string(),
        check: |value| value.parse::<Strategy>().map(drop).map_err(|error| error.to_string()),
        about: "how the scheduler chooses among the nodes that are possible",
    },
    Setting {
        key: ALLOWED.2,
        default: String::new,
        check: |value| value.parse::<Allowed>().map(drop).map_err(|error| error.to_string()),
        about: "which private addresses http:invoke of workflows may reach besides public ones",
    },
    Setting {
        key: mesh_switch::KEY,
        default: || "as --mesh says".to_owned(),
        check: |value| Switch::parse(value).map(drop),
        about: "whether new pods get a proxy of the service mesh (on, off); servers start anew for it",
    },
];

pub async fn run(command: ClusterCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    match command {
        ClusterCommand::Set { settings } => {
            let changes = parse(&settings)?;
            let (client, _) = kubeconfig::client(global).await?;
            write(&Api::namespaced(client, STRATEGY.0), &changes).await?;
            for (key, value) in changes {
                output::line(format_args!("{key}={}", value.map_or_else(|| default_of(key), str::to_owned)))?;
            }
            Ok(())
        }
        ClusterCommand::Get { key } => {
            let key = key.as_deref().map(known).transpose()?;
            let (client, _) = kubeconfig::client(global).await?;
            let map: Option<ConfigMap> = Api::namespaced(client, STRATEGY.0).get_opt(STRATEGY.1).await?;
            output::text(show(&map.and_then(|map| map.data).unwrap_or_default(), key))?;
            Ok(())
        }
    }
}

async fn write(maps: &Api<ConfigMap>, changes: &BTreeMap<&str, Option<&str>>) -> anyhow::Result<()> {
    let data = json!({ "data": changes });
    let outcome = match maps.patch(STRATEGY.1, &PatchParams::default(), &Patch::Merge(&data)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let data =
                changes.iter().filter_map(|(key, value)| Some(((*key).to_owned(), (*value)?.to_owned())));
            let mut map = ConfigMap { data: Some(data.collect()), ..ConfigMap::default() };
            map.metadata.name = Some(STRATEGY.1.to_owned());
            maps.create(&PostParams::default(), &map).await
        }
        other => other,
    };
    outcome.map(drop).context("cannot write the cluster's settings")
}

/// Keys with their new values; None goes back to the default.
fn parse(settings: &[String]) -> anyhow::Result<BTreeMap<&'static str, Option<&str>>> {
    let mut changes = BTreeMap::new();
    for setting in settings {
        let Some((key, value)) = setting.split_once('=') else {
            bail!("{setting:?} is not of the form KEY=VALUE");
        };
        let key = known(key)?;
        let found = SETTINGS.iter().find(|setting| setting.key == key);
        if let Some(Err(error)) = found.filter(|_| !value.is_empty()).map(|setting| (setting.check)(value)) {
            bail!("{key}: {error}");
        }
        changes.insert(key, Some(value).filter(|value| !value.is_empty()));
    }
    Ok(changes)
}

fn known(key: &str) -> anyhow::Result<&'static str> {
    let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
        let keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
        bail!("unknown setting {key:?}; known: {}", keys.join(", "));
    };
    Ok(setting.key)
}

fn default_of(key: &str) -> String {
    SETTINGS.iter().find(|setting| setting.key == key).map(|setting| (setting.default)()).unwrap_or_default()
}

fn show(data: &BTreeMap<String, String>, only: Option<&str>) -> String {
    let value = |setting: &Setting| data.get(setting.key).cloned().unwrap_or_else(|| (setting.default)());
    if let Some(setting) = SETTINGS.iter().find(|setting| Some(setting.key) == only) {
        return format!("{}\n", value(setting));
    }
    let lines = SETTINGS.iter().map(|setting| {
        let source = if data.contains_key(setting.key) { "" } else { " (default)" };
        format!("{}={}{source}\n    {}\n", setting.key, value(setting), setting.about)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked() {
        let check = |setting: &str, expected: Result<Option<&str>, &str>| {
            let settings = [setting.to_owned()];
            match (parse(&settings), expected) {
                (Ok(changes), Ok(value)) => assert_eq!(changes.get("scheduler.strategy"), Some(&value)),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (got, _) => panic!("{setting}: {got:?}"),
            }
        };
        check("scheduler.strategy=binpack", Ok(Some("binpack")));
        check("scheduler.strategy=", Ok(None));
        check("scheduler.strategy=best", Err("unknown scheduling strategy \"best\"; known: balanced, "));
        check("strategy=binpack", Err("unknown setting \"strategy\"; known: scheduler.strategy"));
        check("binpack", Err("not of the form KEY=VALUE"));
    }

    #[test]
    fn what_get_prints() {
        let set = BTreeMap::from([("scheduler.strategy".to_owned(), "random".to_owned())]);
        let about = "    how the scheduler chooses among the nodes that are possible\n";
        let begins = |data: &BTreeMap<String, String>, expected: &str| {
            assert!(show(data, None).starts_with(expected), "{}", show(data, None));
        };
        begins(&BTreeMap::new(), &format!("scheduler.strategy=balanced (default)\n{about}workflows."));
        begins(&set, &format!("scheduler.strategy=random\n{about}workflows.allowed-addresses= (default)\n"));
        assert_eq!(show(&set, Some("scheduler.strategy")), "random\n");
    }
}
