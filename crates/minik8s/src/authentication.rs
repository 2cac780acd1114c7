//! Flags about users of others, by the names that kube-apiserver gives them: OpenID Connect issuers, token webhooks,
//! front proxies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use minik8s_api::Extension;
use minik8s_authentication::webhook::TokenWebhook;
use minik8s_authentication::{AuthenticationSettings, ClassicSettings, Issuers};
use tokio_util::sync::CancellationToken;

use crate::request_header_flags::RequestHeaderFlags;
use crate::service_account_flags::ServiceAccountFlags;

#[derive(Debug, Clone, Default, Args)]
pub struct AuthenticationFlags {
    /// Let users of OpenID Connect issuers in as this AuthenticationConfiguration (apiserver.config.k8s.io/v1) says; a
    /// changed file is read again
    #[arg(long, value_name = "FILE", conflicts_with = "oidc_issuer_url")]
    authentication_config: Option<PathBuf>,
    /// Let users of this OpenID Connect issuer in (https)
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer_url: Option<String>,
    /// For whom the issuer's tokens must be meant
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    oidc_client_id: Option<String>,
    /// The claim that is the user's name
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    oidc_username_claim: String,
    /// Put before users' names; the issuer's URL and # unless the claim is email, - for nothing
    #[arg(long, value_name = "TEXT", requires = "oidc_issuer_url", allow_hyphen_values = true)]
    oidc_username_prefix: Option<String>,
    /// The claim that has the user's groups
    #[arg(long, value_name = "CLAIM", requires = "oidc_issuer_url")]
    oidc_groups_claim: Option<String>,
    /// Put before groups
    #[arg(long, value_name = "TEXT", default_value = "")]
    oidc_groups_prefix: String,
    /// A claim that tokens must have, with this value; give it several times for several
    #[arg(long, value_name = "CLAIM=VALUE", requires = "oidc_issuer_url", value_parser = pair)]
    oidc_required_claim: Vec<(String, String)>,
    /// How tokens may be signed
    #[arg(long, value_name = "NAME[,NAME...]", default_value = "RS256", value_delimiter = ',')]
    oidc_signing_algs: Vec<String>,
    /// The authority that signed the issuer's certificate (PEM); without it, those that this machine trusts
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url")]
    oidc_ca_file: Option<PathBuf>,
    /// Ask the webhook that this kubeconfig file names (https) about tokens that nobody else knows
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// How long what the webhook said of a token is remembered: 30s, 2m
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = time)]
    authentication_token_webhook_cache_ttl: Duration,
    #[command(flatten)]
    request_header: RequestHeaderFlags,
    #[command(flatten)]
    pub service_accounts: ServiceAccountFlags,
}

/// The issuers of a file, and what the file is.
pub struct Followed {
    issuers: Arc<Issuers>,
    file: Option<PathBuf>,
    own_issuer: String,
}

impl AuthenticationFlags {
    /// Adds to what the API server is told who knows tokens, and returns what must be followed.
    pub fn settle(&self, own_issuer: &str, extension: &mut Extension) -> anyhow::Result<Option<Followed>> {
        let settings = match (&self.authentication_config, &self.oidc_issuer_url) {
            (Some(path), _) => {
                let at = || format!("--authentication-config {}", path.display());
                Some(AuthenticationSettings::read(path, own_issuer).with_context(at)?)
            }
            (None, Some(url)) => Some(self.classic(url)?.settings(own_issuer)?),
            (None, None) => None,
        };
        let followed = settings.map(|settings| {
            extension.anonymous = settings.anonymous.clone();
            let issuers = Issuers::new(settings);
            extension.tokens.push(issuers.clone());
            let (file, own_issuer) = (self.authentication_config.clone(), own_issuer.to_owned());
            Followed { issuers, file, own_issuer }
        });
        if let Some(path) = &self.authentication_token_webhook_config_file {
            let webhook = TokenWebhook::read(path, self.authentication_token_webhook_cache_ttl);
            let at = || format!("--authentication-token-webhook-config-file {}", path.display());
            extension.tokens.push(webhook.map_err(anyhow::Error::msg).with_context(at)?);
        }
        extension.request_header = self.request_header.settings()?;
        Ok(followed)
    }

    fn classic(&self, url: &str) -> anyhow::Result<ClassicSettings> {
        let authority = match &self.oidc_ca_file {
            Some(path) => {
                std::fs::read_to_string(path).with_context(|| format!("--oidc-ca-file {}", path.display()))?
            }
            None => String::new(),
        };
        Ok(ClassicSettings {
            issuer_url: url.to_owned(),
            client_id: self.oidc_client_id.clone().unwrap_or_default(),
            username_claim: self.oidc_username_claim.clone(),
            username_prefix: self.oidc_username_prefix.clone(),
            groups_claim: self.oidc_groups_claim.clone(),
            groups_prefix: self.oidc_groups_prefix.clone(),
            required_claims: self.oidc_required_claim.iter().cloned().collect::<BTreeMap<_, _>>(),
            signing_algs: self.oidc_signing_algs.clone(),
            authority,
        })
    }
}

impl Followed {
    /// Fetches keys, and takes over changes of the file, until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let follow = async {
            match self.file {
                Some(file) => minik8s_authentication::follow(file, self.own_issuer, self.issuers).await,
                None => {
                    self.issuers.warm_up().await;
                    std::future::pending().await
                }
            }
        };
        tokio::select! {
            () = follow => {}
            () = stop.cancelled() => {}
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("use CLAIM=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `30s`, `2m`.
pub fn time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "use a time, as 30s or 2m")?;
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        "h" => Ok(Duration::from_secs(number.saturating_mul(3600))),
        "" if number == 0 => Ok(Duration::ZERO),
        _ => Err("use a time, as 30s or 2m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: AuthenticationFlags,
    }

    #[test]
    fn flags_make_authenticators() {
        let check = |line: &str, tokens: Option<usize>, expected: &str| {
            let words = ["minik8s"].into_iter().chain(line.split_whitespace());
            let settled = Line::try_parse_from(words).map_err(anyhow::Error::from).and_then(|line| {
                let mut extension = Extension::default();
                line.flags.settle("https://own", &mut extension)?;
                Ok(extension.tokens.len())
            });
            let told = settled.as_ref().map_or_else(|error| format!("{error:#}"), |_| String::new());
            assert!(settled.ok() == tokens && told.contains(expected), "{line}: {told}");
        };
        check("", Some(0), "");
        check("--oidc-issuer-url https://a --oidc-client-id k8s", Some(1), "");
        check(
            "--oidc-issuer-url https://a --oidc-client-id k --oidc-required-claim a=b --oidc-username-prefix -",
            Some(1),
            "",
        );
        check("--oidc-issuer-url https://a", None, "--oidc-client-id");
        check("--oidc-issuer-url http://a --oidc-client-id k8s", None, "it must begin with https://");
        check("--oidc-issuer-url https://own --oidc-client-id k8s", None, "the cluster's own issuer");
        check(
            "--oidc-issuer-url https://a --oidc-client-id k --oidc-signing-algs none",
            None,
            "\"none\" is not one of",
        );
        check(
            "--oidc-issuer-url https://a --oidc-client-id k --authentication-config f",
            None,
            "cannot be used with",
        );
        check(
            "--authentication-config /no/such",
            None,
            "--authentication-config /no/such: it cannot be read",
        );
        check("--authentication-token-webhook-config-file /no/such", None, "No such file");
        check("--service-account-issuer https://a,https://b --api-audiences a", Some(0), "");
        check("--service-account-max-token-expiration 30m", None, "between 1 hour");
        check("--requestheader-allowed-names a", None, "--requestheader-client-ca-file");
        check("--requestheader-client-ca-file /no/such", None, "No such file");
        check("--requestheader-client-ca-file /dev/null", None, "there is no certificate in it");
        check("--requestheader-group-headers a:b", None, "invalid HTTP header name");
    }
}
