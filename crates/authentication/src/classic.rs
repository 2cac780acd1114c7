//! The classic flags of kube-apiserver (`--oidc-issuer-url` and those beside it), as one issuer of a configuration.

use std::collections::BTreeMap;

use crate::configuration::{
    AuthenticationSettings, ConfigurationError, IssuerConfiguration, JwtConfiguration, invalid, read_issuer,
};
use crate::jwt::Algorithm;
use crate::mapping::{ClaimMappings, ClaimRule, PrefixedClaim};

/// What the flags say.
#[derive(Debug, Clone, Default)]
pub struct ClassicSettings {
    pub issuer_url: String,
    pub client_id: String,
    pub username_claim: String,
    /// None: the issuer's URL and `#`, unless the name is a mail address. `-` is none.
    pub username_prefix: Option<String>,
    pub groups_claim: Option<String>,
    pub groups_prefix: String,
    pub required_claims: BTreeMap<String, String>,
    pub signing_algs: Vec<String>,
    /// PEM; empty is what this machine trusts.
    pub authority: String,
}

impl ClassicSettings {
    pub fn settings(self, own_issuer: &str) -> Result<AuthenticationSettings, ConfigurationError> {
        if self.issuer_url == own_issuer {
            return Err(invalid("--oidc-issuer-url", "this is the cluster's own issuer"));
        }
        let prefix = match self.username_prefix.as_deref() {
            Some("-") => String::new(),
            Some(prefix) => prefix.to_owned(),
            None if self.username_claim == "email" => String::new(),
            None => format!("{}#", self.issuer_url),
        };
        let mut algorithms = Vec::new();
        for name in &self.signing_algs {
            let unknown = || {
                let names = Algorithm::ALL.map(Algorithm::name).join(", ");
                invalid("--oidc-signing-algs", &format!("{name:?} is not one of {names}"))
            };
            algorithms.push(Algorithm::parse(name).ok_or_else(unknown)?);
        }
        let claim = |claim: String, prefix: String| PrefixedClaim {
            claim,
            prefix: Some(prefix),
            ..Default::default()
        };
        let rules = self.required_claims.into_iter().map(|(claim, required_value)| ClaimRule {
            claim,
            required_value,
            ..ClaimRule::default()
        });
        let jwt = JwtConfiguration {
            issuer: IssuerConfiguration {
                url: self.issuer_url,
                certificate_authority: self.authority,
                audiences: vec![self.client_id],
                ..IssuerConfiguration::default()
            },
            claim_validation_rules: rules.collect(),
            claim_mappings: ClaimMappings {
                username: claim(self.username_claim, prefix),
                groups: self.groups_claim.map(|groups| claim(groups, self.groups_prefix)),
                ..ClaimMappings::default()
            },
            user_validation_rules: Vec::new(),
        };
        let issuer = read_issuer("--oidc", jwt, algorithms)?;
        Ok(AuthenticationSettings { issuers: vec![issuer], anonymous: None })
    }
}
