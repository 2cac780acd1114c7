//! Flags about who decides what users may, by the names that kube-apiserver gives them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use minik8s_api::Extension;
use minik8s_authorization::{AuthorizationSettings, Authorizers, ClassicSettings};
use tokio_util::sync::CancellationToken;

use crate::authentication::time;

#[derive(Debug, Clone, Default, Args)]
pub struct AuthorizationFlags {
    /// Ask the authorizers of this AuthorizationConfiguration (apiserver.config.k8s.io/v1) whether requests are allowed; a
    /// changed file is read again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["authorization_mode", "authorization_webhook_config_file"])]
    authorization_config: Option<PathBuf>,
    /// Who is asked whether requests are allowed, in this order: Node, RBAC, Webhook; without it, Node and RBAC
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',')]
    authorization_mode: Vec<String>,
    /// The webhook of the mode Webhook, as a kubeconfig file (https)
    #[arg(long, value_name = "FILE", requires = "authorization_mode")]
    authorization_webhook_config_file: Option<PathBuf>,
    /// How long the webhook's yes is remembered: 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// How long everything else that the webhook says is remembered
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
}

/// The authorizers of a file, and the file.
pub struct FollowedAuthorizers {
    authorizers: Arc<Authorizers>,
    file: PathBuf,
}

impl AuthorizationFlags {
    /// Adds to what the API server is told who is asked, and returns what must be followed.
    pub fn settle(&self, extension: &mut Extension) -> anyhow::Result<Option<FollowedAuthorizers>> {
        if let Some(path) = &self.authorization_config {
            let at = || format!("--authorization-config {}", path.display());
            let authorizers = Authorizers::new(AuthorizationSettings::read(path).with_context(at)?);
            extension.authorization = Some(authorizers.clone());
            return Ok(Some(FollowedAuthorizers { authorizers, file: path.clone() }));
        }
        if !self.authorization_mode.is_empty() {
            let classic = ClassicSettings {
                modes: self.authorization_mode.clone(),
                webhook_file: self.authorization_webhook_config_file.clone(),
                authorized_ttl: self.authorization_webhook_cache_authorized_ttl,
                unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl,
            };
            extension.authorization = Some(Authorizers::new(classic.settings()?));
        }
        Ok(None)
    }
}

impl FollowedAuthorizers {
    /// Takes over changes of the file, until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(minik8s_authorization::follow(self.file, self.authorizers)).await;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: AuthorizationFlags,
    }

    #[test]
    fn flags_make_authorizers() {
        let check = |line: &str, authorizers: Option<usize>, expected: &str| {
            let words = ["minik8s"].into_iter().chain(line.split_whitespace());
            let settled = Line::try_parse_from(words).map_err(anyhow::Error::from).and_then(|line| {
                let mut extension = Extension::default();
                line.flags.settle(&mut extension)?;
                Ok(extension.authorization.map_or(0, |chain| chain.steps().len()))
            });
            let told = settled.as_ref().map_or_else(|error| format!("{error:#}"), |_| String::new());
            assert!(settled.ok() == authorizers && told.contains(expected), "{line}: {told}");
        };
        check("", Some(0), "");
        check("--authorization-mode Node,RBAC", Some(2), "");
        check("--authorization-mode RBAC,Webhook", None, "--authorization-webhook-config-file");
        check("--authorization-mode AlwaysAllow", None, "AlwaysAllow is not there");
        check("--authorization-webhook-config-file /x", None, "--authorization-mode");
        check("--authorization-config /no/such", None, "--authorization-config /no/such: it cannot be read");
        check("--authorization-config /x --authorization-mode RBAC", None, "cannot be used with");
    }
}
