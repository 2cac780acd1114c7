//! `minik8s token`: who may bring machines into the cluster.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Endpoints, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use minik8s_auth::bootstrap_token::{NAMESPACE, SECRET_TYPE, TokenInfo};
use minik8s_auth::pki::public_key_pin;
use minik8s_cli::GlobalFlags;

use crate::{join_token, kubeconfig, output};

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// List the tokens; their secrets are not shown
    #[command(after_help = "Example: minik8s token list")]
    List {
        #[command(flatten)]
        cluster: ClusterFlags,
    },
    /// Make a token and print it; what to do with it on the next machine is told besides
    #[command(after_help = "Example: minik8s token create --ttl 1h --description 'the new rack'")]
    Create {
        /// How long it is good: 30m, 24h, 7d, or `never` expires
        #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_lifetime)]
        ttl: Lifetime,
        /// What it is for
        #[arg(long, value_name = "TEXT", default_value = "")]
        description: String,
        #[command(flatten)]
        cluster: ClusterFlags,
    },
    /// Write a new token, good for 24 hours, into join-token in the server's data dir
    #[command(after_help = "Example: minik8s token renew")]
    Renew {
        #[command(flatten)]
        cluster: ClusterFlags,
    },
    /// Revoke tokens by their first part; nodes that have joined stay
    #[command(after_help = "Example: minik8s token revoke abcdef")]
    Revoke {
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        #[command(flatten)]
        cluster: ClusterFlags,
    },
}

#[derive(Debug, Args)]
pub struct ClusterFlags {
    /// The server's data dir, whose admin.kubeconfig is used unless --kubeconfig or --context names a cluster
    #[arg(long, value_name = "DIR", default_value = "/var/lib/minik8s")]
    data_dir: PathBuf,
}

/// `None` for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime(Option<SignedDuration>);

pub async fn run(command: TokenCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    match command {
        TokenCommand::List { cluster } => list(cluster.connect(global).await?.client).await,
        TokenCommand::Create { ttl, description, cluster } => {
            create(cluster.connect(global).await?, ttl, &description).await
        }
        TokenCommand::Renew { cluster } => {
            let (client, pin) = cluster.connect(global).await?.trusted()?;
            let path = join_token::renew(client, &pin, &cluster.data_dir).await?;
            Ok(output::line(format_args!("{}", path.display()))?)
        }
        TokenCommand::Revoke { ids, cluster } => revoke(cluster.connect(global).await?.client, &ids).await,
    }
}

struct Cluster {
    client: kube::Client,
    pin: Option<String>,
    /// As the kubeconfig has it, which may be a loopback address.
    url: String,
}

impl Cluster {
    /// The client, and the hash of the key of the cluster's authority.
    fn trusted(self) -> anyhow::Result<(kube::Client, String)> {
        let pin = self.pin.context("the kubeconfig does not hold the cluster's authority")?;
        Ok((self.client, pin))
    }
}

impl ClusterFlags {
    async fn connect(&self, global: &GlobalFlags) -> anyhow::Result<Cluster> {
        let own = self.data_dir.join("admin.kubeconfig");
        let config = match kubeconfig::names_a_cluster(global) {
            true => kubeconfig::load(global).await?,
            false => {
                let what = || format!("{} (name another with --kubeconfig or --data-dir)", own.display());
                let flags = GlobalFlags { kubeconfig: Some(own.clone()), ..global.clone() };
                kubeconfig::load(&flags).await.with_context(what)?
            }
        };
        let authorities = config.root_cert.iter().flatten();
        let pin = authorities.into_iter().find_map(|certificate| public_key_pin(certificate));
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        Ok(Cluster { client: kube::Client::try_from(config)?, pin, url })
    }
}

async fn list(client: kube::Client) -> anyhow::Result<()> {
    let of_tokens = ListParams::default().fields(&format!("type={SECRET_TYPE}"));
    let secrets = Api::<Secret>::namespaced(client, NAMESPACE).list(&of_tokens).await?;
    output::line(format_args!("{:<8} {:<22} DESCRIPTION", "ID", "EXPIRES"))?;
    for secret in secrets {
        let Some(token) = TokenInfo::read(&serde_json::to_value(secret)?) else { continue };
        let expires = shown(token.expiration, Timestamp::now());
        output::line(format_args!("{:<8} {expires:<22} {}", token.id, token.description))?;
    }
    Ok(())
}

fn shown(expiration: Option<Timestamp>, now: Timestamp) -> String {
    match expiration {
        None => "never".to_owned(),
        Some(end) if end <= now => "expired".to_owned(),
        Some(end) => end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }
}

async fn create(cluster: Cluster, ttl: Lifetime, description: &str) -> anyhow::Result<()> {
    let expiration = ttl.0.map(|lifetime| Timestamp::now() + lifetime);
    let server = match server_address(cluster.client.clone()).await {
        Some(address) => format!("https://{address}"),
        None => cluster.url.clone(),
    };
    let (client, pin) = cluster.trusted()?;
    let token = join_token::create(client, &pin, description, expiration).await?;
    output::line(token.reveal())?;
    // Apart from the token, so that it alone can be led into a file.
    let told = format!(
        "Put it into a file join-token (mode 0600) on the machine, and run there:\n  {}",
        join_token::command(&server)
    );
    Ok(writeln!(std::io::stderr(), "{told}")?)
}

/// Where nodes reach a server; `None` if it has no address but this machine's own.
async fn server_address(client: kube::Client) -> Option<SocketAddr> {
    let endpoints = Api::<Endpoints>::namespaced(client, "default").get("kubernetes").await.ok()?;
    let subset = endpoints.subsets?.into_iter().next()?;
    let address: IpAddr = subset.addresses?.into_iter().next()?.ip.parse().ok()?;
    let port = u16::try_from(subset.ports?.into_iter().next()?.port).ok()?;
    Some(SocketAddr::new(address, port))
}

async fn revoke(client: kube::Client, ids: &[String]) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    for id in ids {
        // The whole token does as well.
        let id = id.split('.').next().unwrap_or_default();
        match secrets.delete(&format!("bootstrap-token-{id}"), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => bail!("there is no token {id}"),
            other => drop(other?),
        }
        output::line(format_args!("revoked {id}"))?;
    }
    Ok(())
}

fn parse_lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" {
        return Ok(Lifetime(None));
    }
    let wrong = || "use a time like 30m, 24h or 7d, or never".to_owned();
    let days = text.strip_suffix('d').and_then(|days| days.parse::<i32>().ok());
    let lifetime = match days {
        Some(days) => SignedDuration::from_hours(24 * i64::from(days)),
        None => text.parse().map_err(|_| wrong())?,
    };
    if lifetime.is_positive() { Ok(Lifetime(Some(lifetime))) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes() {
        let check = |text: &str, expected: Option<Option<i64>>| {
            let parsed = parse_lifetime(text).ok().map(|lifetime| lifetime.0.map(|d| d.as_secs()));
            assert_eq!(parsed, expected, "{text}");
        };
        check("30m", Some(Some(1800)));
        check("24h", Some(Some(86_400)));
        check("7d", Some(Some(604_800)));
        check("never", Some(None));
        for wrong in ["", "0h", "-1h", "soon", "0d", "7"] {
            check(wrong, None);
        }
    }
}
