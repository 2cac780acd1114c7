//! Flags about tokens of service accounts, by the names that kube-apiserver gives them.

use std::time::Duration;

use clap::Args;
use minik8s_api::ServiceAccountTokens;

use crate::authentication::time;

#[derive(Debug, Clone, Args)]
pub struct ServiceAccountFlags {
    /// Who issues tokens of service accounts: the first signs, tokens of the others are accepted, too. All servers of a
    /// cluster alike
    #[arg(long, value_name = "URL[,URL...]", value_delimiter = ',')]
    service_account_issuer: Vec<String>,
    /// For whom tokens for the API server are meant; the issuers by default
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',')]
    api_audiences: Vec<String>,
    /// How long a token of a service account lives at most: 1h, 48h
    #[arg(long, value_name = "TIME", value_parser = longest)]
    service_account_max_token_expiration: Option<Duration>,
    /// Whether tokens of pods live on for a year after they should have been renewed
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    service_account_extend_token_expiration: bool,
}

impl Default for ServiceAccountFlags {
    fn default() -> Self {
        ServiceAccountFlags {
            service_account_issuer: Vec::new(),
            api_audiences: Vec::new(),
            service_account_max_token_expiration: None,
            service_account_extend_token_expiration: true,
        }
    }
}

impl ServiceAccountFlags {
    pub fn settings(&self) -> ServiceAccountTokens {
        let longest = self.service_account_max_token_expiration.map(|longest| longest.as_secs());
        ServiceAccountTokens {
            issuers: self.service_account_issuer.clone(),
            api_audiences: self.api_audiences.clone(),
            max_expiration_seconds: longest.and_then(|seconds| i64::try_from(seconds).ok()),
            is_not_extended: !self.service_account_extend_token_expiration,
        }
    }
}

/// As upstream: an hour at least.
fn longest(text: &str) -> Result<Duration, String> {
    let longest = time(text)?;
    let is_fit = (3600..=1 << 32).contains(&longest.as_secs());
    is_fit.then_some(longest).ok_or_else(|| "it must be between 1 hour and 2^32 seconds".to_owned())
}
